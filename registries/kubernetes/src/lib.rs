//! The Kubernetes registry: one cluster's Services, EndpointSlices, Pods and Nodes become facts.
