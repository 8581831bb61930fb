//! Small fleets, and who must go.
