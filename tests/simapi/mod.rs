//! The simulated cluster's API, driven in process with the requests that kubectl and kube-rs send.

mod scene;
