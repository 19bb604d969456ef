//! Table of all `TRBnnnn` codes: errors, conditions and reasons.
//!
//! Codes are part of the interface: a number never changes its meaning. `docs/reference/codes.md`
//! is generated from this table, and a test compares the two.

use std::fmt;

/// Row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CodeInfo {
    /// Number.
    pub number: u16,
    /// Short meaning.
    pub title: &'static str,
    /// What an operator does about it.
    pub next: &'static str,
}

/// Code of the table. Constructors accept only numbers of the table.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Code(u16);

macro_rules! codes {
    ($($number:literal $name:ident $title:literal => $next:literal;)*) => {
        impl Code {
            $(#[doc = $title] pub const $name: Self = Self($number);)*
            /// Every code, sorted by number.
            pub const TABLE: &'static [CodeInfo] =
                &[$(CodeInfo { number: $number, title: $title, next: $next }),*];
        }
    };
}

codes! {
    // 01xx: command line and configuration
    101 NO_REGISTRY "no registry is configured" => "configure one, for example `--registry file=DIR`";
    102 CONFIG_INVALID "the configuration is not valid" => "correct the named field; `tributary config schema` prints what is allowed";
    103 ADDRESS_IN_USE "the server cannot listen on an address: it is in use, or not of this machine" => "choose another port or stop the other process";
    104 PLAINTEXT_NOT_LOOPBACK "plaintext xDS is offered on a non-loopback address" => "configure TLS or listen on 127.0.0.1";
    105 CONFIG_RELOAD_FAILED "the changed configuration file is not valid; the previous configuration stays active" => "correct the named field";
    106 UNKNOWN_REGISTRY_KIND "unknown kind of registry" => "use one of the kinds that `tributary serve --help` lists";
    107 TLS_FILES "certificate, key or CA cannot be read" => "check the named file";
    108 SERVER_UNREACHABLE "no server answers at this address" => "check that a server runs at this address: `tributary serve` starts one, `--server` names another";
    109 NOT_FOUND "name not found" => "list the known names: `tributary get services`, `get clients`, `get registries` or `get policies`";
    110 REGISTRY_NAME_TAKEN "two registries have the same name" => "give one of them another `name`";
    111 FLAG_INVALID "a flag's value is not valid" => "see `tributary serve --help`";
    112 STATE_UNUSABLE "the state directory cannot be used" => "see the message; choose another directory with `--state-dir`, or serve without one: `--state-dir none`";

    // 02xx: sources
    201 SOURCE_UNREACHABLE "a source cannot be reached" => "check that it runs and that its address is right; its last known facts stay served";
    202 SOURCE_FORBIDDEN "a source refuses access" => "check its permissions; its last known facts stay served";
    203 REMOVAL_HELD "a removal is held until the source confirms it" => "see `tributary get registries -o wide`";
    204 SOURCE_LIMIT "a source is larger than its bound" => "split it or remove unneeded objects";
    205 REGISTRY_UNKNOWN "a registry has not synced yet" => "see its reason with `tributary get registries -o wide`";
    206 REGISTRY_STALE "a registry's facts are stale" => "see its reason with `tributary get registries -o wide`";
    207 REGISTRY_FAILED "a registry's run failed and is being restarted" => "see its reason with `tributary get registries -o wide`";
    208 NAMESPACE_NOT_SELECTED "a namespace is not selected for discovery" => "label it as `meshConfig.discoverySelectors` requires, or add it to `namespaces`";
    209 OTHER_REVISION "an object belongs to another revision" => "correct its `istio.io/rev` label or `--revision`";
    210 ANSWER_UNREADABLE "a source's answer about one object cannot be read" => "correct the object at its source; its last known facts stay served";
    211 ENDPOINTS_UNREAD "the endpoints of a service have never been readable" => "restore the source, or grant the right that the message names (`tributary rbac print`); clients that hold endpoints of the service keep them, other clients receive those that are known";
    212 POLICIES_UNREAD "the policies of a registry have never been readable" => "restore the source, or grant the right that the message names (`tributary rbac print`)";
    213 SERVICES_UNREAD "declarations of services have never been readable" => "restore the source, or grant the right that the message names (`tributary rbac print`); hosts that only they declare are not served until then";

    // 03xx: documents
    301 YAML_SYNTAX "the document is not YAML" => "correct the named line";
    302 DOCUMENT_TOO_LARGE "the document is larger than its bound" => "split it";
    303 UNKNOWN_KIND "the document's kind is not supported" => "use ServiceEntry, WorkloadEntry, WorkloadGroup, Sidecar, DestinationRule, VirtualService, EnvoyFilter or Gateway of networking.istio.io, or PeerAuthentication, AuthorizationPolicy or RequestAuthentication of security.istio.io";
    304 UNKNOWN_FIELD "unknown field" => "remove it or correct its spelling";
    305 WRONG_TYPE "a field has the wrong type" => "write it as the message describes";
    306 MISSING_FIELD "a required field is missing" => "add it";
    307 INVALID_HOST "a host is not valid" => "write a DNS name, optionally with a wildcard in front (`*.` or `*-`)";
    308 INVALID_ADDRESS "an address is not valid" => "write an IP address, a CIDR, or the form that the message names";
    309 INVALID_PORT "a port is not valid" => "use 1 to 65535, and unique names and numbers";
    310 SELECTOR_AND_ENDPOINTS "both a selector and endpoints are given" => "keep one of them";
    311 RESOLUTION_MISMATCH "the resolution does not allow this" => "change the resolution or the field that the message names";
    312 DUPLICATE_OBJECT "two documents declare the same object" => "rename or remove one; the first in file order is served";
    313 INVALID_NAME "a name is not valid" => "use letters, digits, `-` and `.`";
    314 EMPTY_SELECTOR "a selector without labels selects nothing" => "give it at least one label";
    315 UNKNOWN_ENDPOINT_PORT "an endpoint names a port that the entry does not declare" => "declare it or remove it";
    316 ADDRESS_MISSING "a workload has no address" => "give it one; a network alone is not an address, also behind gateways";
    317 FILE_UNREADABLE "a file cannot be read" => "check its permissions, size and encoding; its last known facts stay served";
    318 OBJECT_KEPT "an object stays served because its file contains a document that does not identify its object" => "correct that document, or remove it";
    319 MESH_CONFIG_INVALID "the mesh configuration is not valid in full" => "correct the field that the message names; the last valid value stays active";
    320 NETWORK_CLAIMED_TWICE "several networks claim one registry or address range" => "assign it to one of them; the first by name gets it";
    321 OBJECT_UNREADABLE "an object cannot be read" => "correct the named field; its last good version stays served";
    322 ADDRESSES_EXHAUSTED "no free address is left for a host" => "configure a larger range, or delete unneeded entries";
    323 NOT_WRITTEN "a write to an object failed" => "see the message; the server tries again";
    324 POD_NOT_SEEN "an endpoint waits for its pod, which has not been received" => "check that the pod exists and that its namespace is selected: `tributary get registries -o wide`";
    325 FIELD_NOT_SERVED "a field is not served" => "remove it; see the reference page of the object's kind";
    326 VALUE_INVALID "a value is out of its range, or contradicts another one" => "write it as the message describes";
    327 KIND_NOT_SERVED "objects of this kind are not served" => "clients behave as without it; move it out of a directory of files, or leave it in a cluster where another control plane serves it";
    328 FIELD_UNKNOWN "an object of a cluster has a field that this version does not know; it is served without it" => "correct its spelling or remove it, unless a newer version of the kind defines it";
    329 GATEWAY_UNUSABLE "an object declares a gateway of a network that clients of other networks cannot use" => "give it what the message names, or declare the gateway no more; a network without any declared gateway is reached directly";
    330 GATEWAY_NAME_UNRESOLVED "the host name of a gateway has no address, so that clients of other networks cannot use the gateway" => "correct the name or its DNS records, or let the server reach a DNS server that knows it; the name is asked for again by itself";
    331 GATEWAY_NAME_FAILING "the host name of a gateway cannot be resolved now; its last addresses stay in use" => "restore the DNS server or the records of the name; if the gateway is gone, remove it or its address";

    // 034x: EnvoyFilters
    340 PATCH_VALUE_INVALID "the value of a patch is not a valid message" => "correct the field that the message names; see Envoy's reference of the part that the patch changes";
    341 PATCH_MATCH_INVALID "the match of a patch does not fit the part that it changes" => "match an object of that part, as the message describes";
    342 PATCH_FIELD_UNKNOWN "the value of a patch has a field that Envoy's API does not define" => "correct its spelling or remove it; it is left out";

    // 04xx: conditions of a service
    401 PORT_CONFLICT "shards declare a port number with different names or protocols" => "make the declarations agree; the first in precedence is served";
    402 HOST_CONFLICT "several namespaces or providers claim this host" => "rename one; the first in precedence is served";
    403 DUPLICATE_ENDPOINT "two shards list the same endpoint" => "remove one; the first in precedence is served with the worse health";
    404 GROUP_WITHOUT_DECLARATION "endpoints wait for their declaration" => "declare the service";
    405 UNMATCHED_PORT "endpoints have no port for a declared one" => "make the port names agree";
    406 RESOLUTION_CONFLICT "declarations disagree on the resolution" => "make them agree; the first in precedence is served";
    407 ALIAS_LOOP "an alias resolves to itself" => "break the loop";
    408 ALIAS_DANGLING "an alias names a host that does not exist" => "declare that host or remove the alias";
    409 ADDRESS_CONFLICT "two services claim the same address and port: a virtual address, or without one an endpoint" => "change one; the first in precedence is served, before HTTP services one of another protocol";
    410 DOMAIN_CONFLICT "two services claim the same domain on one port" => "change one; the first in precedence is served";
    411 NO_TARGET_PORT "a selected workload lacks the target port" => "name the port on the workload or use a number";
    412 LISTENER_CONFLICT "HTTP and TCP services need the same listener" => "use different ports; the first in precedence is served";
    413 IMPORT_CONFLICT "the clusters that export a service disagree on it" => "make the Services agree; the first in precedence is imported";
    414 ANNOTATION_NOT_UNDERSTOOD "an annotation is not valid" => "correct the value that the message names; the object is served without it";
    415 WORKLOAD_NOT_SELECTED "a workload has the address and no service selects it" => "declare a service whose selector matches its labels, in its namespace";
    416 NO_LISTENER "sidecars do not recognize connections to a port without a virtual address" => "give the service an address, or name a protocol with a host (HTTP, TLS); until then its connections count as unknown";
    421 DYNAMIC_PORTS "instances use more port numbers than are served" => "give the service one number: Meta `service-port` (`service-port-NAME` for a named port) or the registry's `servicePort`";
    422 PROTOCOL_DISAGREES "instances disagree on the protocol of a port" => "set the same Meta `protocol` on all; the protocol of the majority is served";
    423 LABELS_DROPPED "labels of instances are not kept" => "make their keys differ in characters that labels allow";
    424 META_NOT_UNDERSTOOD "an instance's Meta is not valid" => "correct the value that the message names";
    425 MIRRORED "instances are copies from a cluster that is watched directly" => "nothing; the originals are served";
    426 UNKNOWN_CHECK "a check has an unknown status and counts as critical" => "see the check at its source";
    427 NAMED_INSTANCES "instances have DNS names for addresses, so clients resolve the service" => "give all instances IP addresses if clients need every instance";
    428 MESH_SERVICE "a service takes part in Consul's mesh, whose TLS is not used" => "let its instances accept plain connections of your clients, or reach it through a gateway of the mesh";
    431 FEDERATED_MEMBER_MISSING "a member of a federated service is not declared" => "declare it, or remove the member";
    432 FEDERATED_MEMBER_REFUSED "a member of a federated service, or some endpoints of it, cannot be joined" => "join services whose endpoints are addresses (no host names, no alias)";
    433 FEDERATED_PORT "a port is not served by all members of a federated service" => "add the port to the member's `ports` map";
    434 FEDERATED_PROTOCOL "members of a federated service disagree on a port's protocol" => "make them agree; the first owner's is served";
    435 FEDERATED_STANDBY "a standby member of a federated service is in use" => "check the active members";
    436 FEDERATED_SHADOWED "a source declares the host of a federated service" => "rename one of them; the federated service is served";
    437 SAME_NAME "a service of a cluster and one of Consul have one name" => "see `tributary get merges`; join them in a federated service or `merge.byName: on`, or rename one";

    // 044x: conditions of a policy
    441 POLICY_CONFLICT "two policies apply to the same workloads" => "change or delete one; the first in precedence applies";
    442 POLICY_FIELD_IGNORED "fields of a policy have no effect" => "remove them, or see the reference page of the policy's kind";

    443 EGRESS_HOST_UNMATCHED "egress hosts of a Sidecar match no service that its workloads may see" => "correct their namespace or host, or the port of the listener, or extend the `exportTo` of the services";
    444 SELECTOR_UNMATCHED "a policy selects no known workload" => "make its labels and namespace match a workload, or delete it";
    445 EGRESS_PROXY_UNREACHABLE "the egress proxy of a Sidecar is not reached, so connections to unknown hosts fail" => "declare its host and port, and import the host in `egress` of the Sidecar";

    446 RULE_HOST_UNMATCHED "the host of a DestinationRule matches no service that it could concern" => "correct the host: a name without a dot means a service of the rule's namespace, any other is taken as it stands";
    447 SUBSET_UNMATCHED "a subset of a DestinationRule matches no endpoint" => "make its labels match those of endpoints (`tributary explain ENDPOINT --host HOST --subset NAME`), or remove it";
    448 RULE_SHADOWED "a DestinationRule, or a part of it, has no effect because another one precedes it" => "move what is needed to the one that applies, and remove the rest";
    449 RULE_WITHOUT_CLIENTS "a DestinationRule concerns no client" => "declare it in the namespace of the clients, of the service, or the root namespace, and extend its `exportTo`";

    450 ROUTE_DESTINATION_UNMATCHED "a destination of a VirtualService is no service, or has no such port" => "correct the port, name one if the service has several, or correct the host: a name without a dot means a service of the namespace of the VirtualService, any other is taken as it stands";
    451 ROUTE_SUBSET_UNDECLARED "a destination of a VirtualService names a subset that no DestinationRule of its clients declares" => "declare the subset in a DestinationRule of the host, or correct the name";
    452 ROUTE_SHADOWED "a route of a VirtualService serves no request, because the routes before it take them all" => "move it before them, or narrow their conditions";
    453 ROUTE_HOST_UNMATCHED "a host of a VirtualService is that of no service" => "correct the host, or declare a service or a ServiceEntry with it";
    454 ROUTE_HOST_TAKEN "other VirtualServices route the requests for a host of a VirtualService in its place" => "merge them into one; the older one precedes among those for the same clients";
    455 ROUTE_DELEGATE_UNMATCHED "a delegate of a VirtualService does not exist, has hosts, or is not exported to its namespace" => "correct the name and namespace of the delegate, or its `exportTo`";
    456 ROUTE_WITHOUT_CLIENTS "a VirtualService concerns no client" => "extend its `exportTo`, add `mesh` to its gateways, or name a VirtualService without hosts as a delegate";
    457 ROUTE_WITHOUT_ENDPOINTS "a destination of a VirtualService that has a share of the requests has no endpoints" => "add endpoints (`tributary explain HOST`), or set its weight to 0";
    458 SHARES_UNMATCHED "`distribute` of a DestinationRule gives the clients of a place to places without endpoints" => "correct the places in `to`, or add endpoints there";
    459 RULE_PORT_UNMATCHED "settings of a DestinationRule are for a port that no service of its host has" => "correct the number of the port, or remove them";

    // 046x: conditions of EnvoyFilters
    460 PATCH_NOT_SERVED "patches of an EnvoyFilter are applied to no client" => "remove them, or see the reference page of EnvoyFilters";
    461 PATCH_PARTLY_SERVED "a part of a patch of an EnvoyFilter has no effect" => "remove it from the value, or see the reference page of EnvoyFilters";
    462 PATCH_UNUSED "patches of an EnvoyFilter changed nothing that a connected client was sent" => "nothing, if clients that they are for are not connected; else compare the match with `tributary get resources CLIENT`";
    463 ROUTE_PORT_UNMATCHED "routes of a VirtualService are for ports that no service of its hosts has" => "move them to the list of the port's protocol (`http`, `tls` or `tcp`), or correct the port";
    464 ROUTE_DELEGATE_OUTSIDE "conditions of a delegate's routes lie within none of the route that names it, so that the routes are left out" => "correct the match of either VirtualService";
    465 ROUTE_DESTINATION_HIDDEN "a destination of a VirtualService is not exported to clients that its routes are for" => "extend the `exportTo` of the service, or narrow that of the VirtualService";
    466 HASH_WITHOUT_REQUESTS "`consistentHash` of a DestinationRule reads requests, and no service of its host has a port for them" => "write `useSourceIp`, remove it, or correct the protocol of the port";
    467 MESH_SHARES_UNMATCHED "`distribute` of the mesh's `localityLbSetting` gives the clients of a place to places without endpoints of a service" => "correct the places in `to`, add endpoints there, or set `localityLbSetting` in a DestinationRule of the host";
    468 ROUTE_PORT_PARTLY_UNMATCHED "a destination of a VirtualService names no port, and its service lacks a port of the hosts, so that what comes to that port fails" => "give the destination a port, or the route a condition on `port`";
    469 PATCH_LEFT_OUT "a patch of an EnvoyFilter is left out of resources, which Envoy would refuse with it" => "complete the value, or match only the parts that it is for, such as the routes with a destination (`action: ROUTE`)";
    470 SHARES_PARTLY_UNMATCHED "`distribute` of a DestinationRule gives a part of the requests to a place without endpoints" => "correct the place in `to`, or add endpoints there; until then the other places receive its part";
    471 STREAMS_WITHOUT_HTTP2 "`maxConcurrentStreams` of a DestinationRule has no effect, because clients use HTTP/1.1 or, with `useClientProtocol`, the version of each request" => "set `h2UpgradePolicy: UPGRADE` without `useClientProtocol`, remove it, or correct the protocol of the port";
    472 AUTHORIZATION_UNREADABLE "no version of an AuthorizationPolicy is valid, so that its workloads refuse every request" => "correct the field that the reason of the policy names: `tributary get policies NAME -o wide`";
    473 AUTHORIZATION_UNDECIDED "an AuthorizationPolicy depends on an extension, which is not served, or on tokens that no RequestAuthentication reads, so that requests are refused" => "declare a RequestAuthentication for its workloads, or write rules that decide by identity, address or request";
    474 ROUTE_LACKED_BY_SOME "clients of some namespaces lack a destination of a VirtualService, or its subset, by the DestinationRules or the `exportTo` that apply to them, or get a service of its host without the port or without endpoints" => "declare the subset in the DestinationRule that the message names, extend the `exportTo` of the service or of the rule with the subset, narrow that of the VirtualService, or correct the service that the message names";
    475 ROUTE_HOST_EXCEPTED "VirtualServices that name hosts more exactly route their requests in the place of a VirtualService, which serves others" => "nothing, if they are meant as exceptions; else remove or merge them";
    476 TOKENS_UNREADABLE "no version of a RequestAuthentication is valid, so that its workloads refuse every request" => "correct the field that the reason of the policy names: `tributary get policies NAME -o wide`";
    477 KEYS_UNREACHABLE "sidecars cannot fetch the keys of a RequestAuthentication from a host that is no service which they reach, so that its tokens are refused" => "declare the host and its port, such as in a ServiceEntry, export it to the namespace, and import it in the Sidecar";
    478 KEYS_IN_PLAIN_TEXT "the address of keys of a RequestAuthentication is https, and sidecars would connect to its host in plain text, so that its tokens are refused" => "set `tls.mode: SIMPLE` for the port in a DestinationRule of the host";
    479 KEYS_UNDECLARED "a rule of a RequestAuthentication has neither `jwks` nor `jwksUri`, so that its tokens are refused" => "add `jwksUri`: keys are not looked up by the issuer";

    480 SERVERS_NOT_SERVED "servers of a Gateway are not served" => "nothing, if another control plane serves them; of Gateways, servers of mode AUTO_PASSTHROUGH are served, which forward mesh TLS between networks";
    481 POLICY_NOT_FOR_GRPC "connected gRPC servers apply a policy in part" => "see the message; use a sidecar, or conditions that gRPC servers check";
    482 SERVER_HOST_UNMATCHED "hosts of a Gateway match no service" => "correct the hosts of its servers, or declare the service";

    // 05xx: why an endpoint is or is not served
    501 SOURCE_ENDPOINT "the source lists this endpoint" => "nothing";
    502 NO_SUCH_ENDPOINT "no source lists this endpoint" => "check the source object and the status of its registry: `tributary get registries -o wide`";
    503 MERGED "the shard takes part in the service" => "nothing";
    504 SHADOWED_SERVICE "another declaration of this host is served to this client" => "see the claimants with `tributary get services -o wide`";
    505 VISIBLE "the declaration is exported to this client" => "nothing";
    506 NOT_VISIBLE "the declaration is not exported to this client's namespace" => "extend its `exportTo`";
    507 OTHER_NODE "only endpoints on the client's own node are served" => "see internalTrafficPolicy";
    508 OTHER_CLUSTER "only endpoints of the client's own cluster are served" => "export the service or make it global";
    509 SAME_NETWORK "the client reaches the address directly" => "nothing";
    510 OTHER_NETWORK "the address is in another network, and no gateway of it can be used for it" => "see the line for what is missing, or set `crossNetwork: direct` if networks are flat";
    511 HEALTHY "the endpoint is healthy" => "nothing";
    512 UNHEALTHY "the endpoint is not healthy" => "see its source";
    513 TERMINATING "the endpoint is shutting down" => "nothing";
    514 DRAINING "the endpoint is draining" => "nothing";
    515 WEIGHT "the endpoint's weight and priority" => "nothing";
    516 NOT_AN_IP "the client accepts only IP addresses" => "use an IP address or a DNS resolution";
    517 UNIX_NOT_FOR_GRPC "gRPC clients do not receive unix paths" => "give the endpoint an IP address";
    518 DUPLICATE_ADDRESS "the address and port are already served" => "remove one of the duplicates";
    519 DEMOTED "the shard is served one priority lower" => "nothing if its cluster leaves; else see the staleness policy and the state of its registry: `tributary get registries -o wide`";
    520 DELIVERED "the client received and accepted this" => "nothing";
    521 NOT_DELIVERED "the server has not sent this to the client" => "see `tributary get clients`";
    522 NACKED "the client rejected the resource" => "see the client's error text";
    523 NOT_ACKED "the server has sent this and the client has not answered yet" => "wait, or check the client";
    524 NO_SUCH_HOST "no source declares this host" => "check the host's spelling and its source";
    525 NO_SUCH_PORT "the service has no such port" => "check the port";
    526 DNS_RESOLVED "the client resolves this service by DNS" => "nothing";
    527 HELD_ENDPOINT "the endpoint is served because its removal is not confirmed" => "see `tributary get registries -o wide`";
    528 FEDERATED "the endpoint is served through a federated service" => "nothing";
    529 STANDBY "the endpoint waits as a standby of its federated service" => "nothing";
    530 NOT_IMPORTED "the client's Sidecar imports no such host or port, or no Gateway of a router has the host" => "add it to `egress` of the Sidecar that the step names, or to the hosts of a server of mode AUTO_PASSTHROUGH";
    531 ROUTED "the client's requests for the host take this virtual host" => "nothing";
    532 ROUTED_ELSEWHERE "the client's requests for the host do not go there" => "see where they go with `tributary get routes HOST --for-client CLIENT`, and which services claim the host with `tributary get services -o wide`";
    533 NOT_ROUTED "no route of the client leads requests to the port" => "add the host to the egress listener of the port, or remove that listener";
    534 REACHED "how the client reaches the port" => "nothing";
    535 NO_ENDPOINTS "no source lists endpoints for the port" => "check the service's selector and target port, and the status of its registry: `tributary get registries -o wide`";
    536 UDP_NOT_SERVED "UDP ports are not served" => "nothing";
    537 NO_LISTENER_MATCHES "no listener of the client matches connections to the port" => "give the service an address, or name a protocol with a host (HTTP, TLS)";
    538 KIND_CANNOT_REACH "clients of this kind cannot use the service with its resolution or with the TLS of its DestinationRule" => "use another kind of client, or change what the line names: the resolution of the service, or the TLS of the rule";
    539 ALIAS "the host is an alias of another service" => "nothing";
    540 WILDCARD "the host is one of those that a wildcard host matches" => "nothing";
    541 NO_SUCH_SUBSET "the service has no such subset" => "request a subset that a DestinationRule declares, or declare it in the rule that applies to the client";
    542 PORT_CLOSED "the client's proxy cannot listen on the port" => "use another port; UNPRIVILEGED_POD closes those below 1024, and its own listeners have some above 15000";
    543 RULE_APPLIES "a DestinationRule applies to the client" => "nothing";
    544 NOT_IN_SUBSET "the endpoint does not have a label of the subset" => "change the labels of the endpoint or of the subset";
    545 NOT_FOR_GRPC "settings of a DestinationRule have no effect on gRPC clients" => "use a sidecar, or settings that gRPC reads";
    546 NO_LOCALITY_SHARE "the client's requests are distributed among other localities" => "add the locality to `distribute` of the DestinationRule, or of the mesh's `localityLbSetting`";
    547 ROUTES_APPLY "a VirtualService routes the client's requests or connections" => "list its routes with `tributary get routes HOST --for-client CLIENT`";
    548 ROUTES_NOT_FOR_GRPC "parts of a VirtualService have no effect on gRPC clients" => "use a sidecar, or fields that gRPC reads";
    549 MESH_LOCALITY "the mesh's `localityLbSetting` decides which localities the client uses" => "nothing; `localityLbSetting` of a DestinationRule replaces it for one host";
    550 ROUTES_EMPTY "a VirtualService of the host has no route for the client's requests or connections, which go the usual way" => "see which routes are left out with `tributary get policies NAME -o wide`";
    551 NO_TARGET_OF_WILDCARD "gRPC clients have no target for a host that only a wildcard matches" => "declare the host itself, or use a sidecar";

    552 CONNECTION_SECURITY "how connections of the client to the port are secured" => "nothing; `tls` of a DestinationRule decides it for one host";
    553 NO_CERTIFICATES "the rule of the client requires certificates of the mesh, which it does not have" => "name them in the client's node (see the reference of xDS), or set another `tls.mode`";
    554 REMOVED_BY_FILTER "an EnvoyFilter removes the resource from what the client is sent" => "change or delete the EnvoyFilter that the line names; `tributary get resources CLIENT` notes all that filters remove";
    555 AUTHORIZATION_APPLIES "AuthorizationPolicies and RequestAuthentications decide which requests the workload of the endpoint accepts" => "see their rules with `tributary get policies NAME -o json`";
    556 THROUGH_GATEWAY "the client reaches the endpoint through gateways of its network" => "nothing; `crossNetwork: direct` if networks are flat";
    557 GATEWAY "the address is a gateway of a network" => "list all with `tributary get gateways`";
    558 PLAIN_BEHIND_ROUTER "an endpoint does not accept mesh TLS, which routers pass on" => "give its workload a sidecar with certificates of the mesh, and no PeerAuthentication of mode DISABLE";
    559 REMOVED_BY_SOURCE "a registry had it, and has it no longer" => "see what happened at that time with `tributary get timeline`, then its source";

    // 06xx: clients
    601 CLIENT_NO_NODE "a client did not identify itself" => "set `node.id` in its bootstrap";
    602 CLIENT_LIMIT "a client exceeded a bound" => "see the message for the bound";
    603 CLIENT_IDENTITY "a client does not prove the identity that its node claims" => "correct `metadata.NAMESPACE`, the certificate or the token";
    604 CLIENT_NACK "a client rejected a resource" => "see its text with `tributary get clients -o wide`";
    605 CLIENT_NO_PROFILE "a client requested listeners or routes that its profile does not have" => "use a four-part `sidecar~` node id, or gRPC";
    606 CLIENT_PARTIAL_MTLS "a sidecar is served without mesh TLS in its xDS clusters" => "name its certificates in its node; see the guide on an Istio data plane";
    607 CLIENT_SLOW "a client's stream was closed because it stopped reading" => "check the client";
    608 CLIENT_UNKNOWN_CLUSTER "a client names a cluster that no registry serves" => "correct its CLUSTER_ID";
    609 CLIENT_TYPE "a client requested a type that is not served" => "nothing; the request is ignored";
    610 CLIENT_REFUSES_PLAIN "a sidecar without certificates of the mesh closes connections that must have mesh TLS" => "give its node certificates, or set PERMISSIVE for its workload";
    611 CLIENT_INBOUND_WITHHELD "a client has no inbound listeners: policies that may restrict them were never read" => "give the server the right to read them, or wait until their source answers";
    612 CLIENT_TOKEN_UNREVIEWED "the cluster of a client did not review its token" => "check that it answers, and that the server's account may create TokenReviews (`tributary rbac print`)";
    613 CLIENT_NO_NAMESPACE "a gRPC server gets no listener: its node names no namespace, whose policies might restrict it" => "set `metadata.NAMESPACE` in its bootstrap";
    614 CLIENT_SERVER_REFUSES "a gRPC server is sent a listener that refuses every call" => "see the message; correct the bootstrap of the server, or select it by fewer policies";

    // 07xx: credentials of remote clusters
    701 KUBECONFIG_UNREADABLE "a kubeconfig cannot be read" => "write one YAML document of at most 256 KiB, without duplicate fields, anchors and aliases";
    702 KUBECONFIG_FIELD_REFUSED "a field of a kubeconfig is not allowed" => "remove it, or use what the message names in its place";
    703 KUBECONFIG_FIELD_INVALID "a field of a kubeconfig is missing or not valid" => "correct it as the message describes";
    704 SERVER_ADDRESS_REFUSED "a kubeconfig leads to an address that no remote API server should have" => "use the address at which other machines reach the API server";
    705 CREDENTIAL_EXPIRED "the credential of a cluster has expired" => "replace the kubeconfig; `tributary cluster rotate` does that for one of a Secret";
    706 SECRET_REFUSED "a Secret declares no cluster" => "label it `istio/multiCluster=true` or `tributary.dev/cluster=true`, with one kubeconfig for each key";
    707 CLUSTER_UNREACHABLE "the API server of a cluster does not answer" => "check address, certificate authority and network; the message has the error";
    708 CLUSTER_CREDENTIAL_REFUSED "the API server of a cluster refuses the credential" => "create a new one, and replace the kubeconfig";
    709 CLUSTER_RIGHT_MISSING "the credential of a cluster may not list a kind of object" => "grant its account what `tributary rbac print` shows";
    710 CLUSTER_CLAIM_UNUSED "an object declares a cluster that another one declares first" => "remove it from one of them; between Secrets, `tributary.dev/priority` decides";
    711 CREDENTIAL_EXPIRES "the credential of a cluster expires soon" => "replace the kubeconfig; `tributary cluster rotate` does that for one of a Secret";
    712 CLUSTER_REPLACED "another cluster answers in place of a known one" => "correct the kubeconfig; if the change is intended, use `tributary cluster accept`, or `tributary state accept` for a cluster of the configuration";
    713 CLUSTER_ROTATION_FAILS "a new credential of a cluster cannot read it; the earlier one stays in use" => "correct the kubeconfig or the rights of its account; `tributary cluster accept --rights` goes on with fewer rights";
    714 CLUSTER_NOT_ADDED "a cluster could not be added; the server tries again" => "see the message";
    715 SECRETS_UNREAD "the Secrets of remote clusters cannot be read" => "grant what `tributary rbac print` shows, or set `remotes.secrets: off`";
    716 ANNOTATION_REFUSED "an annotation of a Secret of remote clusters has no effect" => "correct or remove it, as the message describes";
    717 SAME_CLUSTER "one cluster is served under two names" => "remove one of its declarations, or correct its kubeconfig";
    718 UID_NOT_ACCEPTED "the accepted UID is not that of the cluster" => "correct `tributary.dev/accept-uid` or the kubeconfig, or remove the annotation";
    719 DIRECTORY_UNREAD "the directory of kubeconfigs cannot be read" => "check that it exists and that the server may read it; no cluster is removed meanwhile";
    720 FILE_REFUSED "a file of the directory of kubeconfigs declares no cluster" => "name it after its cluster, or move it to another directory";
    721 TOKEN_NOT_RENEWED "the token of a cluster is not renewed in time" => "correct what the message names; `tributary cluster rotate` replaces the token until then";
}

impl Code {
    /// Returns its row.
    #[must_use]
    pub fn info(self) -> CodeInfo {
        let at = Self::TABLE.partition_point(|row| row.number < self.0);
        Self::TABLE[at]
    }
    /// Returns the code of a number read from a file; `None` for a number that is not in the table.
    #[must_use]
    pub fn from_number(number: u16) -> Option<Self> {
        Self::TABLE.binary_search_by_key(&number, |row| row.number).ok().map(|_| Self(number))
    }
    /// Number.
    #[must_use]
    pub const fn number(self) -> u16 {
        self.0
    }
}
impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TRB{:04}", self.0)
    }
}
impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
impl serde::Serialize for Code {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_table_is_sorted_without_duplicates() {
        assert!(Code::TABLE.windows(2).all(|w| w[0].number < w[1].number));
        assert!(Code::TABLE.iter().all(|row| !row.title.is_empty() && !row.next.is_empty()));
    }

    #[test]
    fn number_outside_the_table_gives_no_code() {
        assert_eq!(Code::from_number(401), Some(Code::PORT_CONFLICT));
        assert_eq!(Code::from_number(0), None);
        assert_eq!(Code::from_number(9999), None);
    }

    #[test]
    fn code_finds_its_row() {
        assert_eq!(Code::PORT_CONFLICT.info().number, 401);
        assert_eq!(Code::NO_REGISTRY.to_string(), "TRB0101");
    }
}
