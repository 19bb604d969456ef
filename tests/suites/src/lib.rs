//! The test harness: everything that a test needs to use Tributary as its users do. Child processes that never
//! outlive their test, real Envoy and gRPC clients, backends that name themselves, steady load, a raw ADS
//! client, and a scripted ADS server for tests of the harness itself. The suites here and the benches use it;
//! nothing here is part of the product.

pub mod ads;
pub mod backend;
pub mod capture;
pub mod consul;
pub mod daemon;
pub mod debug;
pub mod deploy;
pub mod dns;
pub mod echo;
pub mod entry;
pub mod envoy;
pub mod etcd;
pub mod facts;
pub mod files;
pub mod follower;
pub mod grpc;
pub mod http_client;
pub mod kube;
pub mod kubelet;
pub mod load;
pub mod moves;
pub mod netns;
pub mod ports;
pub mod process;
pub mod prometheus;
pub mod resources;
pub mod rest;
pub mod server;
pub mod switch;
pub mod tls;
pub mod tools;
pub mod wait;

pub use ads::{AdsClient, Answer, GrpcStatus, ScriptedAds, Variant};
pub use backend::Backend;
pub use capture::CapturedPod;
pub use consul::Consul;
pub use daemon::Daemon;
pub use dns::DnsServer;
pub use echo::Echo;
pub use entry::{Entry, nowhere, outbound};
pub use envoy::{Envoy, EnvoyConfig, Workload};
pub use etcd::Etcd;
pub use files::Files;
pub use follower::Follower;
pub use grpc::{GrpcClient, GrpcConfig, GrpcServer, Language};
pub use kube::ApiServer;
pub use load::{Load, LoadPlan, Tally};
pub use process::Process;
pub use rest::Rest;
pub use server::{ServerOptions, TestServer};
pub use switch::Switch;
pub use tls::{Authority, Identity, TlsFront, replace};
pub use wait::eventually;
