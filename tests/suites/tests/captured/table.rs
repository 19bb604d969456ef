//! What reaches what: every row is a connection, and what must come of it in each IP family.

use crate::documents::{IN_RANGE, STRANGER};
use crate::talk::Talk;
use tributary_suites::capture::Side;

/// Address of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum To {
    /// A virtual address.
    Vip(u8),
    /// A machine; 2 is the pod.
    Machine(u8),
}

/// What must come of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// This backend answers, whatever the outbound policy.
    Backend(&'static str),
    /// This backend answers if the policy is ALLOW_ANY; with REGISTRY_ONLY the connection ends unanswered.
    Passed(&'static str),
    /// As `Passed`, but with REGISTRY_ONLY this status answers.
    PassedOr(&'static str, u16),
    /// The connection ends unanswered, whatever the policy.
    Closed,
}

/// One row.
pub(crate) type Row = (Side, To, u16, Talk, Wanted);

const STRANGE: To = To::Machine(STRANGER);
const POD: To = To::Machine(2);

use Side::{Pod, World};
use Talk::{Grpc, Http, Tcp, Tls};
use To::{Machine, Vip};
use Wanted::{Backend, Closed, Passed, PassedOr};

/// The rows; each holds for IPv4 and for IPv6.
#[rustfmt::skip]
pub(crate) const ROWS: &[Row] = &[
    // HTTP is routed by its host, whatever address the connection has.
    (Pod, Vip(1),      80,   Http("web.test"),      Backend("web.test")),
    (Pod, Vip(2),      80,   Http("shop.test"),     Backend("shop.test")),
    (Pod, Vip(1),      80,   Http("shop.test"),     Backend("shop.test")),
    (Pod, Vip(1),      80,   Http("web.test:80"),   Backend("web.test")),
    (Pod, Machine(11), 80,   Http("web.test"),      Backend("web.test")),
    (Pod, STRANGE,     80,   Http("web.test"),      Backend("web.test")),
    (Pod, STRANGE,     80,   Http("strange.test"),  PassedOr("stranger", 502)),
    (Pod, STRANGE,     80,   Tcp,                   Passed("stranger")),
    (Pod, STRANGE,     80,   Tls("strange.test"),   Passed("stranger")),
    // By the address of a pod, at the port of the pod.
    (Pod, Machine(25), 8080, Http("set.test"),      Backend("set.test")),
    (Pod, Machine(25), 8080, Http("set"),           PassedOr("set.test", 502)),
    (Pod, Machine(11), 8080, Http("web.test"),      PassedOr("web.test", 502)),
    (Pod, STRANGE,     8080, Http("strange.test"),  PassedOr("stranger", 502)),
    // gRPC.
    (Pod, Vip(4),      7000, Grpc("rpc.test"),      Backend("rpc.test")),
    (Pod, Vip(4),      7000, Grpc("rpc.test:7000"), Backend("rpc.test")),
    (Pod, STRANGE,     7000, Grpc("strange.test"),  PassedOr("stranger", 14)),
    // TCP by virtual address: the same port elsewhere is a stranger's.
    (Pod, Vip(3),      5432, Tcp,                   Backend("db.test")),
    (Pod, Machine(13), 5432, Tcp,                   Passed("db.test")),
    (Pod, STRANGE,     5432, Tcp,                   Passed("stranger")),
    // Two TCP services without an address on one port.
    (Pod, Machine(21), 6000, Tcp,                   Backend("a.test")),
    (Pod, Machine(22), 6000, Tcp,                   Backend("b.test")),
    (Pod, STRANGE,     6000, Tcp,                   Passed("stranger")),
    // A port without a protocol, by its virtual address: whatever is spoken, and whatever host is named.
    (Pod, Vip(5),      7100, Http("any.test"),      Backend("any.test")),
    (Pod, Vip(5),      7100, Http("other.test"),    Backend("any.test")),
    (Pod, Vip(5),      7100, Http("strange.test"),  Backend("any.test")),
    (Pod, Vip(5),      7100, Grpc("any.test"),      Backend("any.test")),
    (Pod, Vip(5),      7100, Tcp,                   Backend("any.test")),
    (Pod, Vip(5),      7100, Tls("strange.test"),   Backend("any.test")),
    (Pod, Vip(6),      7100, Http("other.test"),    Backend("other.test")),
    (Pod, Vip(6),      7100, Tcp,                   Backend("other.test")),
    (Pod, STRANGE,     7100, Http("any.test"),      Passed("stranger")),
    (Pod, STRANGE,     7100, Tcp,                   Passed("stranger")),
    // By a range of virtual addresses.
    (Pod, Vip(IN_RANGE), 7300, Http("strange.test"), Backend("any.test")),
    (Pod, Vip(IN_RANGE), 7300, Tcp,                  Backend("any.test")),
    // The same without a virtual address: by endpoint, and HTTP by host at any address.
    (Pod, Machine(17), 7200, Http("bare.test"),     Backend("bare.test")),
    (Pod, Machine(17), 7200, Http("strange.test"),  Backend("bare.test")),
    (Pod, Machine(17), 7200, Grpc("bare.test"),     Backend("bare.test")),
    (Pod, Machine(17), 7200, Tcp,                   Backend("bare.test")),
    (Pod, STRANGE,     7200, Http("bare.test"),     Backend("bare.test")),
    (Pod, STRANGE,     7200, Http("strange.test"),  PassedOr("stranger", 502)),
    (Pod, STRANGE,     7200, Tcp,                   Passed("stranger")),
    // TLS by server name.
    (Pod, Machine(23), 443,  Tls("secure.test"),    Backend("secure.test")),
    (Pod, STRANGE,     443,  Tls("safe.test"),      Backend("safe.test")),
    (Pod, STRANGE,     443,  Tls("strange.test"),   Passed("stranger")),
    (Pod, STRANGE,     443,  Tcp,                   Passed("stranger")),
    // A port that no service has.
    (Pod, STRANGE,     9999, Http("strange.test"),  Passed("stranger")),
    (Pod, STRANGE,     9999, Grpc("strange.test"),  Passed("stranger")),
    (Pod, STRANGE,     9999, Tcp,                   Passed("stranger")),
    (Pod, STRANGE,     9999, Tls("strange.test"),   Passed("stranger")),
    // The pod's own service: out to its virtual address and back in.
    (Pod, Vip(9),      9000, Http("own.test"),      Backend("own-http")),
    (Pod, Vip(9),      9001, Tcp,                   Backend("own-tcp")),
    (Pod, Vip(9),      9002, Grpc("own.test"),      Backend("own-grpc")),
    // The pod itself, which is not redirected.
    (Pod, POD,         9100, Http("own.test"),      Backend("own-http")),
    // Inbound: by the port of the application, whatever the host; other ports pass.
    (World, POD,       9100, Http("own.test"),      Backend("own-http")),
    (World, POD,       9100, Http("strange.test"),  Backend("own-http")),
    (World, POD,       9101, Tcp,                   Backend("own-tcp")),
    (World, POD,       9102, Grpc("own.test"),      Backend("own-grpc")),
    (World, POD,       9200, Http("own.test"),      Backend("own-secret")),
    (World, POD,       9200, Tcp,                   Backend("own-secret")),
    // The proxy's own ports would lead it to itself.
    (World, POD,       15006, Tcp,                  Closed),
];
