//! Addresses to which a kubeconfig may lead: private and public ones pass, those of this machine and its links do not.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail the test")]

use support::{PLANTED, faults, mk_allowed, mk_cluster_at, mk_kubeconfig};
use tributary_model::Code;
use tributary_remote::{AddressClass, Allowed, OptIn, VettedKubeconfig, parse_cidr};

#[path = "support/kubeconfigs.rs"]
mod support;

fn vet(server: &str, allowed: &Allowed) -> Result<VettedKubeconfig, tributary_remote::Refused> {
    VettedKubeconfig::parse(mk_kubeconfig(&mk_cluster_at(server), "token: t").as_bytes(), allowed)
}

#[test]
fn private_and_public_servers_pass() {
    let hosts = [
        "10.0.0.1",
        "172.16.0.1:6443",
        "192.168.1.1",
        "100.64.0.1",
        "8.8.8.8",
        "[fd00::1]:6443",
        "[2001:db8::1]",
        "[64:ff9b::a00:1]",
        "[64:ff9b:1::a00:1]",
        "[64:ff9b:1:a00:0:100::]",
        "api.east.test",
        "localhost.example.com",
    ];
    for host in hosts {
        let vetted = vet(&format!("https://{host}"), &Allowed::default()).unwrap();
        assert_eq!(vetted.server(), format!("https://{host}"));
    }
    let path = vet("https://rancher.test/k8s/clusters/c-1", &Allowed::default()).unwrap();
    assert_eq!(path.server(), "https://rancher.test/k8s/clusters/c-1");
}

/// Hosts that are refused, with their class and the range that would allow them.
const REFUSED: [(&str, &str); 40] = [
    ("127.0.0.1", "127.0.0.0/8"),
    ("127.9.9.9", "127.0.0.0/8"),
    ("2130706433", "127.0.0.0/8"),
    ("0x7f.1", "127.0.0.0/8"),
    ("0177.0.0.1", "127.0.0.0/8"),
    ("127.1", "127.0.0.0/8"),
    ("127.0.0.1.", "127.0.0.0/8"),
    ("localhost", "127.0.0.0/8"),
    ("LOCALHOST.", "127.0.0.0/8"),
    ("api.localhost", "127.0.0.0/8"),
    ("[::1]", "::1/128"),
    ("[::ffff:127.0.0.1]", "127.0.0.0/8"),
    ("[::127.0.0.1]", "127.0.0.0/8"),
    ("[::ffff:0:127.0.0.1]", "127.0.0.0/8"),
    ("[64:ff9b::7f00:1]", "127.0.0.0/8"),
    ("[64:ff9b:1::7f00:1]", "127.0.0.0/8"),
    ("[64:ff9b:1:7f00:0:100::]", "127.0.0.0/8"),
    ("[2002:7f00:1::]", "127.0.0.0/8"),
    ("[2001:0:a00:1::80ff:fffe]", "127.0.0.0/8"),
    ("[2001:0:7f00:1::f5ff:fffe]", "127.0.0.0/8"),
    ("0.0.0.0", "0.0.0.0/8"),
    ("0.1.2.3", "0.0.0.0/8"),
    ("[::]", "::/128"),
    ("[::ffff:0.0.0.0]", "0.0.0.0/8"),
    ("169.254.1.1", "169.254.0.0/16"),
    ("[fe80::1]", "fe80::/10"),
    ("[febf::1]", "fe80::/10"),
    ("[2002:a9fe:101::]", "169.254.0.0/16"),
    ("169.254.169.254", "169.254.169.254/32"),
    ("[::ffff:169.254.169.254]", "169.254.169.254/32"),
    ("[64:ff9b::a9fe:a9fe]", "169.254.169.254/32"),
    ("169.254.170.2", "169.254.170.2/32"),
    ("100.100.100.200", "100.100.100.200/32"),
    ("168.63.129.16", "168.63.129.16/32"),
    ("[fd00:ec2::254]", "fd00:ec2::254/128"),
    ("[fd20:ce::254]", "fd20:ce::254/128"),
    ("metadata.google.internal", "169.254.169.254/32"),
    ("224.0.0.1", "224.0.0.0/4"),
    ("[ff02::1]", "ff00::/8"),
    ("255.255.255.255", "255.255.255.255/32"),
];

#[test]
fn servers_of_this_machine_its_links_and_metadata_are_refused() {
    for (host, range) in REFUSED {
        let text = mk_kubeconfig(&mk_cluster_at(&format!("https://{host}:6443")), "token: t");
        let found = faults(&text, &Allowed::default());
        let [fault] = found.as_slice() else { panic!("{host}: {found:?}") };
        assert_eq!(
            (fault.code, fault.field.as_str()),
            (Code::SERVER_ADDRESS_REFUSED, "clusters[0].cluster.server"),
            "{host}"
        );
        assert_eq!(fault.opt_in, Some(OptIn::ServerCidr(parse_cidr(range).unwrap())), "{host}");
    }
}

#[test]
fn allowed_range_admits_its_servers_and_no_other() {
    for (host, range) in REFUSED {
        let server = format!("https://{host}");
        assert!(vet(&server, &mk_allowed(&[], &[range])).is_ok(), "{host} in {range}");
        assert!(vet(&server, &mk_allowed(&[], &["10.0.0.0/8", "fd00::/64"])).is_err(), "{host}");
    }
    assert!(vet("https://127.0.0.2", &mk_allowed(&[], &["127.0.0.1"])).is_err());
    let teredo = "https://[2001:0:7f00:1::5601:fefe]";
    assert!(vet(teredo, &mk_allowed(&[], &["127.0.0.1"])).is_err(), "its second address is link-local");
}

#[test]
fn resolved_addresses_follow_the_same_rules() {
    let classes = [
        ("127.0.0.1", Some(AddressClass::Loopback)),
        ("::ffff:169.254.169.254", Some(AddressClass::Metadata)),
        ("10.1.2.3", None),
    ];
    for (address, class) in classes {
        let found = Allowed::default().check(address.parse().unwrap());
        assert_eq!(found.err().map(|blocked| blocked.class), class, "{address}");
    }
}

#[test]
fn server_is_an_https_address_without_user_and_query() {
    for server in [
        "http://a.test",
        "a.test:6443",
        "https://",
        "file:///etc/passwd",
        "unix:///run/x",
        "https://a.test:0",
        "https://[fe80::1%eth0]",
        "https://a.test?x=s3cr3t-hunter2",
        "https://a.test/#s3cr3t-hunter2",
        "https://u:s3cr3t-hunter2@a.test",
        "https://@a.test",
        "\"https://a.te\\tst\"",
        "\"https://a.test\\n\"",
        "https://a.t\u{e9}st",
    ] {
        let found =
            faults(&mk_kubeconfig(&mk_cluster_at(server), &format!("token: {PLANTED}")), &Allowed::default());
        let [fault] = found.as_slice() else { panic!("{server}: {found:?}") };
        assert_eq!(
            (fault.code, fault.field.as_str()),
            (Code::KUBECONFIG_FIELD_INVALID, "clusters[0].cluster.server"),
            "{server}"
        );
    }
}

#[test]
fn range_is_a_cidr_or_an_address() {
    assert_eq!(parse_cidr("127.0.0.1").unwrap().to_string(), "127.0.0.1/32");
    assert_eq!(parse_cidr("fd00::/8").unwrap().to_string(), "fd00::/8");
    assert!(["", "localhost", "10.0.0.0/33"].into_iter().all(|text| parse_cidr(text).is_err()));
}
