//! Lookups by DNS, for both IP families.
//!
//! Called by [`run`](crate::run()). The addresses of DNS servers, `/etc/resolv.conf` and `/etc/hosts` are read at each lookup, so that
//! changes count at once. Names are asked for as they are written: search domains do not apply. Errors become texts that are equal for
//! equal causes, so that a repeated failure changes nothing.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use hickory_resolver::config::{
    ConnectionConfig, NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts,
};
use hickory_resolver::lookup::Lookup as Found;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::net::{DnsError, NetError};
use hickory_resolver::proto::op::ResponseCode;
use hickory_resolver::proto::rr::{RData, RecordType};
use hickory_resolver::system_conf::read_system_conf;
use hickory_resolver::{Resolver, TokioResolver};

use crate::answer::{Answer, Family};

/// Most addresses of one family that are taken from an answer.
const MAX_RECORDS: usize = 256;
/// Time for the answer of one server.
const SERVER_TIMEOUT: Duration = Duration::from_secs(3);

/// Resolves host names.
#[async_trait]
pub trait Lookup: Send + Sync + 'static {
    /// Looks up the addresses of a name.
    async fn lookup(&self, name: &str) -> Answer;
}

/// Lookups at DNS servers.
#[derive(Debug, Clone, Default)]
pub struct Dns {
    /// Servers to ask in place of those of `/etc/resolv.conf`; without any, these and `/etc/hosts` count.
    pub servers: Vec<SocketAddr>,
}

impl Dns {
    /// Returns a resolver for each server: one of several servers would not ask again by TCP after a truncated answer.
    fn resolvers(&self) -> Result<Vec<TokioResolver>, Arc<str>> {
        let why = |error: NetError| -> Arc<str> { format!("the DNS configuration: {error}").into() };
        let (config, mut options) = if self.servers.is_empty() {
            read_system_conf().map_err(why)?
        } else {
            let mut options = ResolverOpts::default();
            options.use_hosts_file = ResolveHosts::Never;
            (ResolverConfig::from_parts(None, Vec::new(), servers(&self.servers)), options)
        };
        options.cache_size = 0;
        options.timeout = SERVER_TIMEOUT;
        options.attempts = if config.name_servers().len() > 1 { 0 } else { 1 };
        let alone = |server: &NameServerConfig| {
            let config = ResolverConfig::from_parts(None, Vec::new(), vec![server.clone()]);
            let mut builder = Resolver::builder_with_config(config, TokioRuntimeProvider::default());
            *builder.options_mut() = options.clone();
            builder.build().map_err(why)
        };
        config.name_servers().iter().map(alone).collect()
    }
}

/// Queries one server for both families.
async fn ask(resolver: &TokioResolver, name: &str) -> Answer {
    let (v4, v6) =
        tokio::join!(resolver.lookup(name, RecordType::A), resolver.lookup(name, RecordType::AAAA));
    let ttls = [&v4, &v6].into_iter().flatten().filter_map(ttl);
    Answer { ttl: ttls.min(), v4: family(&v4), v6: family(&v6) }
}

fn servers(all: &[SocketAddr]) -> Vec<NameServerConfig> {
    let one = |at: &SocketAddr| {
        let connections = [ConnectionConfig::udp(), ConnectionConfig::tcp()].map(|mut connection| {
            connection.port = at.port();
            connection
        });
        NameServerConfig::new(at.ip(), true, connections.to_vec())
    };
    all.iter().map(one).collect()
}

#[async_trait]
impl Lookup for Dns {
    async fn lookup(&self, name: &str) -> Answer {
        let resolvers = match self.resolvers() {
            Ok(resolvers) => resolvers,
            Err(why) => return Answer::failed(why),
        };
        let name = format!("{}.", name.trim_end_matches('.'));
        let mut answer = Answer::failed("no DNS server is configured");
        for resolver in &resolvers {
            answer = ask(resolver, &name).await;
            if !answer.is_failure() {
                break;
            }
        }
        answer
    }
}

/// Returns the shortest time to live of the records, also of aliases on the way.
fn ttl(found: &Found) -> Option<Duration> {
    found.answers().iter().map(|record| Duration::from_secs(record.ttl.into())).min()
}

fn family(result: &Result<Found, NetError>) -> Family {
    let found = match result {
        Ok(found) => found,
        Err(NetError::Dns(DnsError::NoRecordsFound(none))) => return without_records(none.response_code),
        Err(error) => return Family::Failed(text(error).into()),
    };
    let addresses = found.answers().iter().filter_map(|record| match &record.data {
        RData::A(ip) => Some(IpAddr::V4(ip.0)),
        RData::AAAA(ip) => Some(IpAddr::V6(ip.0)),
        _ => None,
    });
    let addresses: Vec<IpAddr> = addresses.take(MAX_RECORDS).collect();
    if addresses.is_empty() { without_records(ResponseCode::NoError) } else { Family::Has(addresses) }
}

/// Returns the result of an answer without records. One with an error code is no answer about the name.
fn without_records(code: ResponseCode) -> Family {
    match code {
        ResponseCode::NXDomain => Family::Empty("the name does not exist (NXDOMAIN)".into()),
        ResponseCode::NoError => Family::Empty("the name has no addresses".into()),
        other => Family::Failed(format!("the DNS server answered {other}").into()),
    }
}

/// Returns the text of an error, without what differs between two tries.
fn text(error: &NetError) -> String {
    match error {
        NetError::Timeout => "no DNS server answered in time".to_owned(),
        NetError::Io(error) => format!("no DNS server can be reached: {}", error.kind()),
        NetError::NoConnections => "no DNS server can be reached".to_owned(),
        NetError::Dns(DnsError::ResponseCode(code)) => format!("the DNS server answered {code}"),
        _ => "the answer of the DNS server cannot be read".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use tributary_suites::DnsServer;

    use super::*;

    fn ips(all: &[&str]) -> Vec<IpAddr> {
        all.iter().map(|ip| ip.parse().unwrap()).collect()
    }

    #[tokio::test]
    async fn both_families_are_asked_and_errors_have_their_reasons() {
        let server = DnsServer::start().await.unwrap();
        let dns = Dns { servers: vec![server.addr()] };
        server.set("both.test", 40, &ips(&["192.0.2.1", "192.0.2.2", "2001:db8::1"]));
        let both = dns.lookup("both.test").await;
        assert_eq!(
            (&both.v4, both.ttl),
            (&Family::Has(ips(&["192.0.2.1", "192.0.2.2"])), Some(Duration::from_secs(40)))
        );
        assert_eq!(both.v6, Family::Has(ips(&["2001:db8::1"])));
        server.set("four.test", 40, &ips(&["192.0.2.1"]));
        let four = dns.lookup("four.test").await;
        assert_eq!(four.v6, Family::Empty("the name has no addresses".into()));
        let none = dns.lookup("none.test").await;
        assert_eq!(none.v4, Family::Empty("the name does not exist (NXDOMAIN)".into()));
        server.refuse("four.test");
        let refused = dns.lookup("four.test").await;
        assert_eq!(refused.v4, Family::Failed("the DNS server answered Server Failure".into()));
        server.stop().await;
        let stopped = dns.lookup("both.test").await;
        assert!(matches!(stopped.v4, Family::Failed(_)), "{stopped:?}");
        assert_eq!(dns.lookup("both.test").await, stopped, "equal failures are equal");
    }

    #[tokio::test]
    async fn long_answers_come_by_tcp_and_servers_take_turns() {
        let (server, dead) = (DnsServer::start().await.unwrap(), DnsServer::start().await.unwrap());
        let (here, there) = (server.addr(), dead.addr());
        dead.stop().await;
        let many: Vec<IpAddr> = (0..100).map(|last| IpAddr::from([192, 0, 2, last])).collect();
        server.set("many.test", 40, &many);
        for servers in [vec![here], vec![here, there], vec![there, here], vec![here, here]] {
            let found = Dns { servers: servers.clone() }.lookup("many.test").await;
            let Family::Has(mut found) = found.v4 else { panic!("{servers:?}: {found:?}") };
            found.sort_unstable();
            assert_eq!(found, many, "{servers:?}");
        }
        let refusing = DnsServer::start().await.unwrap();
        refusing.refuse("many.test");
        let found = Dns { servers: vec![refusing.addr(), here] }.lookup("many.test").await;
        assert!(matches!(found.v4, Family::Has(_)), "{found:?}");
    }
}
