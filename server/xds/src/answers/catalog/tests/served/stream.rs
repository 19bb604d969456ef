//! A client with a real session, which the test reads as the transport does.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use envoy_types::pb::envoy::config::listener::v3::Listener;
use envoy_types::pb::envoy::config::route::v3::RouteConfiguration;
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::Secret;
use tributary_model::Mono;
use tributary_proto::peer::Response;
use tributary_proto::{DeltaRequest, SotwRequest};

use super::super::*;
use super::client::{Kind, Resources};
use crate::interest::{InterestIndex, Registration, Wake};
use crate::session::{ChangedHosts, Env, Outgoing, Session};

/// A client with its stream.
pub(super) struct Stream {
    pub(super) client: Kind,
    pub(super) session: Session,
    pub(super) wake: Arc<Wake>,
    pub(super) registration: Registration,
    pub(super) held: Resources,
    /// Whether it was woken and has not read since.
    pub(super) woken: bool,
}

impl Stream {
    pub(super) fn open(client: Kind, env: &Arc<Env>, index: &Arc<InterestIndex>) -> Self {
        let node = Arc::new(client.node().sharing(&env.selections));
        let wake = index.wake();
        let registration = index.register(Arc::clone(&wake), Arc::clone(&node));
        let session = Session::new(Arc::clone(env), client.variant, node, Mono(0));
        let mut out = Self { client, session, wake, registration, held: Resources::new(), woken: true };
        client.subscriptions().iter().for_each(|(kind, _)| out.send(*kind, "", true));
        out
    }
    /// Subscribes, or acknowledges a response.
    pub(super) fn send(&mut self, kind: ResourceType, nonce: &str, first: bool) {
        let all = self.client.subscriptions().into_iter().find(|(of, _)| *of == kind);
        let names = all.iter().flat_map(|(_, names)| names).map(String::as_str);
        let (type_url, nonce) = (kind.type_url().into(), nonce.into());
        match self.client.variant {
            Variant::Sotw => {
                let request =
                    SotwRequest { type_url, nonce, names: names.collect(), ..SotwRequest::default() };
                self.session.on_sotw(&request, Mono(0)).unwrap();
            }
            Variant::Delta => {
                let subscribe = names.filter(|_| first).collect();
                let request = DeltaRequest { type_url, nonce, subscribe, ..DeltaRequest::default() };
                self.session.on_delta(&request, Mono(0)).unwrap();
            }
        }
    }
    /// Returns whether a publication woke it.
    pub(super) fn is_woken(&mut self) -> bool {
        let woken = pin!(self.wake.woken()).poll(&mut Context::from_waker(Waker::noop()));
        let Poll::Ready((touched, observed)) = woken else { return false };
        self.session.on_generation_of(touched, observed);
        self.woken = true;
        true
    }
    /// Reads until it has all of a generation, as the transport does.
    pub(super) fn read(&mut self, catalog: &Arc<Catalog>) {
        loop {
            if let Some(interest) = self.session.take_interest() {
                self.registration.update(interest, self.session.class(), Vec::new());
                self.session.on_generation(ChangedHosts::Everything);
            }
            match self.session.on_writable(Mono(0), || Arc::clone(catalog)) {
                Some(out) => self.receive(out),
                None if self.session.interest_is_due() => {}
                None => break,
            }
        }
        self.wake.handled();
        self.woken = false;
    }
    pub(super) fn receive(&mut self, out: Outgoing) {
        let (kind, variant) = (out.kind, self.client.variant);
        let message = out.rope.message();
        let response = match variant {
            Variant::Sotw => Response::decode_sotw(message),
            Variant::Delta => Response::decode_delta(message),
        };
        let response = response.unwrap();
        if variant == Variant::Sotw && kind.has_wildcard() {
            self.held.retain(|(of, _), _| *of != kind);
        }
        for resource in response.resources {
            self.held.insert((kind, name_in(kind, &resource.body)), resource.body);
        }
        for name in response.removed {
            self.held.remove(&(kind, name.as_str().to_owned()));
        }
        self.send(kind, response.nonce.as_str(), false);
    }
}

pub(super) fn name_in(kind: ResourceType, body: &[u8]) -> String {
    match kind {
        ResourceType::Cluster => Cluster::decode(body).unwrap().name,
        ResourceType::Endpoints => ClusterLoadAssignment::decode(body).unwrap().cluster_name,
        ResourceType::Listener => Listener::decode(body).unwrap().name,
        ResourceType::Route => RouteConfiguration::decode(body).unwrap().name,
        ResourceType::Secret => Secret::decode(body).unwrap().name,
    }
}
