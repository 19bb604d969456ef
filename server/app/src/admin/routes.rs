//! The one table of routes. What is not here does not exist; a test walks it.

use axum::routing::{MethodRouter, get};

use super::{Shared, Surface, debug, health};

/// Who may ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Whoever reaches a listener: says nothing about what is served.
    Anyone,
    /// Processes on this machine, through the admin listener.
    Loopback,
}

impl Access {
    /// Whether a listener has routes of this access.
    #[must_use]
    pub fn is_on(self, surface: Surface) -> bool {
        self == Self::Anyone || surface == Surface::Admin
    }
}

/// One route. Every route is read-only and takes GET and HEAD alone.
#[derive(Debug, Clone, Copy)]
pub struct Route {
    /// Its path; nothing in it varies.
    pub path: &'static str,
    /// Who may ask.
    pub access: Access,
    /// What it answers, for the reference.
    pub about: &'static str,
    /// Who answers.
    pub handler: fn() -> MethodRouter<Shared>,
}

/// Every route.
pub const ROUTES: &[Route] = &[
    Route {
        path: "/livez",
        access: Access::Anyone,
        about: "200 while the owner of the catalog takes turns; says nothing about sources",
        handler: || get(health::livez),
    },
    Route {
        path: "/readyz",
        access: Access::Anyone,
        about: "200 while clients are answered; `?verbose` lists what that rests on (with names of registries on the admin listener alone)",
        handler: || get(health::readyz),
    },
    Route {
        path: "/metrics",
        access: Access::Anyone,
        about: "OpenMetrics; see metrics.md",
        handler: || get(health::metrics),
    },
    Route { path: "/debug", access: Access::Loopback, about: "this table", handler: || get(debug::index) },
    Route {
        path: "/debug/services",
        access: Access::Loopback,
        about: "ServiceList: services, merged; takes `name`, `namespace`, `host`, `registry`, `limit`, `after`",
        handler: || get(debug::services),
    },
    Route {
        path: "/debug/endpoints",
        access: Access::Loopback,
        about: "EndpointList: endpoints with provenance; takes the same",
        handler: || get(debug::endpoints),
    },
    Route {
        path: "/debug/clients",
        access: Access::Loopback,
        about: "ClientList: connected clients with sent and acked versions and NACK text; takes `name`, `namespace`, `limit`",
        handler: || get(debug::clients),
    },
    Route {
        path: "/debug/registries",
        access: Access::Loopback,
        about: "RegistryList: sources, what they hold back and what is wrong in them; takes `name`, `registry`, `limit`",
        handler: || get(debug::registries),
    },
    Route {
        path: "/debug/explain",
        access: Access::Loopback,
        about: "ExplainList: how `endpoint` came to be served; takes `host` and `client`",
        handler: || get(debug::explain),
    },
    Route {
        path: "/debug/why-not",
        access: Access::Loopback,
        about: "WhyNotList: why `client` is not given endpoints of `host`",
        handler: || get(debug::why_not),
    },
    Route {
        path: "/debug/config",
        access: Access::Loopback,
        about: "the running configuration, where each value was set, and the last reload",
        handler: || get(debug::config),
    },
];

/// The route of a path.
#[must_use]
pub fn find(path: &str) -> Option<&'static Route> {
    ROUTES.iter().find(|route| route.path == path)
}
