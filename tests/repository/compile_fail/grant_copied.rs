//! error[E0277]: a grant cannot be copied.
use stokehold::plan::grant::Grant;

pub fn keep(grant: &Grant) -> String {
    Grant::clone(grant).by().to_owned()
    //~ Grant::by(grant).to_owned()
}
