# What is built from the rooms: the server and its second name, later clients, tools, benchmarks.
