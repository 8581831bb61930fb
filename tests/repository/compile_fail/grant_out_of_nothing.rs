//! error[E0451]: a grant cannot be made out of nothing, only from settings.
use stokehold::model::base::Name;
use stokehold::plan::grant::Grant;
use stokehold::settings::Settings;

pub fn grant(_settings: &Settings, context: Name) -> Option<Grant> {
    Some(Grant { context, by: String::new() })
    //~ Grant::from_settings(_settings, &context, false).ok()
}
