//! How Tributary speaks to a Kubernetes API server: which credential, a classified watch, writes under a Lease.
//!
//! Not an adapter: it knows no service and no endpoint. The Kubernetes registry and the custom resources of
//! the ServiceEntry registry both stand on it.
