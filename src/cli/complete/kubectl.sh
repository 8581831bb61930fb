#!/bin/sh
# kubectl asks the program of this name how `kubectl stokehold` goes on.
exec kubectl-stokehold __complete "$@"
