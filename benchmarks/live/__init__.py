"""The whole stack under one workload, headrace and its peers one after the other."""
