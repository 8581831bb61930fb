//! Planners on fleets written by hand.
