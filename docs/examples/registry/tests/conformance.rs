//! The conformance suite over an HTTP listing that tests script.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test: an error here is a failed test"
)]

#[path = "catalog/server.rs"]
mod server;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tributary_conformance::{Ability, Act, Harness, Script, Service, conformance_tests};
use tributary_example_registry::{ListingFactory, ListingFields};
use tributary_model::{ClusterId, Hostname, RegistryName};
use tributary_registry_api::RegistryFactory;

use server::Catalog;

conformance_tests!(real, CatalogHarness);

struct CatalogHarness;

#[async_trait]
impl Harness for CatalogHarness {
    async fn script(&self) -> Box<dyn Script> {
        Box::new(CatalogScript { catalog: Catalog::start().await, namespaces: vec!["part-0", "part-1"] })
    }
    fn declines(&self, ability: Ability) -> Option<&'static str> {
        match ability {
            Ability::Shorten => Some("namespaces are configured"),
            Ability::End => Some("a namespace that answers 404 may be a wrong address"),
            Ability::Swap => Some("the listing has no identity"),
            _ => None,
        }
    }
    fn patience(&self) -> Duration {
        Duration::from_millis(800)
    }
    fn is_quick(&self) -> bool {
        false
    }
}

struct CatalogScript {
    catalog: Catalog,
    namespaces: Vec<&'static str>,
}

#[async_trait]
impl Script for CatalogScript {
    fn factory(&self) -> Arc<dyn RegistryFactory> {
        let name = RegistryName::new("catalog").unwrap();
        let cluster = ClusterId::new("catalog").unwrap();
        let fields = ListingFields {
            base: self.catalog.base(),
            namespaces: self.namespaces.iter().map(|name| (*name).to_owned()).collect(),
            domain: "catalog.test".into(),
            interval: Duration::from_millis(50).into(),
        };
        Arc::new(ListingFactory::new(name, cluster, fields).unwrap())
    }
    fn host(&self, service: &str) -> Hostname {
        Hostname::new(format!("{service}.catalog.test")).unwrap()
    }
    async fn set(&mut self, part: usize, service: &Service) {
        self.catalog.set(part, service);
    }
    async fn delete(&mut self, service: &str) {
        self.catalog.delete(service);
    }
    async fn act(&mut self, act: Act) {
        if act == Act::Narrow {
            self.namespaces.truncate(1);
        }
        self.catalog.act(&act);
    }
}
