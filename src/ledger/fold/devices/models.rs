//! The catalogue's models by the names of labels and exporters: looked up once for each name, since every page
//! repeats its devices' models.

use rustc_hash::FxHashMap;

use model::base::Name;
use model::fleet::accelerator::{Catalog, DeviceKind, Vendor};

/// More names than this are mistakes or malice.
const MOST: usize = 1024;

/// Properties of a model.
#[derive(Clone)]
pub(crate) struct Model {
    pub(crate) vendor: Vendor,
    pub(crate) kind: DeviceKind,
    pub(crate) class: Name,
    /// Nominal memory of a device, GiB.
    pub(crate) memory_gib: Option<f64>,
}

/// The models of a catalogue by the looked-up names.
#[derive(Default)]
pub(crate) struct ModelCache(FxHashMap<Name, Option<Model>>);

impl ModelCache {
    /// The model of a product string; `None` for one that the catalogue does not know.
    pub(crate) fn find(&mut self, catalog: &Catalog, product: &Name) -> Option<Model> {
        if let Some(known) = self.0.get(product) {
            return known.clone();
        }
        if self.0.len() >= MOST {
            self.0.clear();
        }
        let found = catalog.find(product).map(|known| Model {
            vendor: known.vendor,
            kind: known.kind,
            class: known.class.clone(),
            memory_gib: known.memory_gib,
        });
        self.0.insert(product.clone(), found.clone());
        found
    }
}
