module stokehold.dev/live/exposition

go 1.26.0
