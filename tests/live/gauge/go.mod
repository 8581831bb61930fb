module stokehold.dev/live/gauge

go 1.26.0
