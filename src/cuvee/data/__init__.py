"""Tables in: readers, encoders, what the labels are; and data sets to try things on."""
