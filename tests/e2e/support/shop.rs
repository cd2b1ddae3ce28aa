//! The shop that the real handlers call, open for one test, with the grants for it.

use duebox_shop::Shop;
use tokio::runtime::Runtime;

/// An open shop. Dropping it closes it.
pub(crate) struct OpenShop {
    pub(crate) shop: Shop,
    _runtime: Runtime,
}

impl OpenShop {
    pub(crate) fn open() -> Self {
        let runtime = Runtime::new().unwrap();
        let shop = runtime.block_on(Shop::open(0, None)).unwrap();
        Self { shop, _runtime: runtime }
    }

    /// Keys of a topic whose handler may call only this shop.
    pub(crate) fn grant(&self) -> String {
        let origin = self.shop.origin();
        format!(
            "sandbox.http = [\"{origin}\"]\nsandbox.http_private = [\"127.0.0.1\"]\n\
             sandbox.config.shop = \"{origin}\"\n"
        )
    }

    /// The ledger entries of a kind: subject, key, and whether they had an effect.
    pub(crate) fn ledger(&self, what: &str) -> Vec<(String, String, bool)> {
        let books = self.shop.books();
        let lines = books.ledger().iter().filter(|entry| entry.what == what);
        lines.map(|entry| (entry.of.clone(), entry.key.clone(), entry.effect)).collect()
    }
}
