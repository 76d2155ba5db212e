"""The report: what runs did, as one page that opens offline, and as the numbers behind it."""
