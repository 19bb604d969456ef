//! What a gRPC tool such as `grpcurl` does: lists the services, reads their descriptors, and calls one.

use super::*;
use envoy_types::pb::envoy::config::core::v3::Node as EnvoyNode;
use envoy_types::pb::envoy::service::discovery::v3::DiscoveryRequest;
use envoy_types::pb::envoy::service::discovery::v3::aggregated_discovery_service_client::AggregatedDiscoveryServiceClient;
use futures::stream::iter;
use prost::Message as _;
use prost_types::FileDescriptorProto;
use tonic::transport::Channel;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest as Ask;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse as Answer;

async fn channel(served: &Served) -> Channel {
    Channel::from_shared(format!("http://{}", served.address)).unwrap().connect().await.unwrap()
}

async fn ask(channel: Channel, ask: Ask) -> Answer {
    let request = ServerReflectionRequest { host: String::new(), message_request: Some(ask) };
    let answers = ServerReflectionClient::new(channel).server_reflection_info(iter([request])).await.unwrap();
    answers.into_inner().message().await.unwrap().unwrap().message_response.unwrap()
}

#[tokio::test]
async fn services_are_listed_with_their_descriptors() {
    let served = Served::with(&[]).await;
    let channel = channel(&served).await;
    let Answer::ListServicesResponse(list) = ask(channel.clone(), Ask::ListServices(String::new())).await
    else {
        panic!("no list of services");
    };
    let names: Vec<&str> = list.service.iter().map(|service| service.name.as_str()).collect();
    let ads = "envoy.service.discovery.v3.AggregatedDiscoveryService";
    assert!(names.contains(&ads) && names.contains(&"grpc.health.v1.Health"), "{names:?}");
    let symbol = Ask::FileContainingSymbol("envoy.service.discovery.v3.DiscoveryRequest".into());
    let Answer::FileDescriptorResponse(files) = ask(channel, symbol).await else {
        panic!("no descriptor of a request");
    };
    let file = FileDescriptorProto::decode(&files.file_descriptor_proto[0][..]).unwrap();
    assert_eq!(file.package(), "envoy.service.discovery.v3");
}

#[tokio::test]
async fn generated_client_is_served() {
    let served = Served::with(&[(ResourceType::Cluster, "a.x", "1")]).await;
    let mut client = AggregatedDiscoveryServiceClient::new(channel(&served).await);
    let request = DiscoveryRequest {
        node: Some(EnvoyNode { id: "tool".into(), ..EnvoyNode::default() }),
        type_url: ResourceType::Cluster.type_url().into(),
        ..DiscoveryRequest::default()
    };
    let requests = futures::StreamExt::chain(iter([request]), futures::stream::pending());
    let mut responses = client.stream_aggregated_resources(requests).await.unwrap().into_inner();
    let response = timeout(SOON, responses.message()).await.unwrap().unwrap().unwrap();
    assert_eq!(response.resources[0].value, b"a.x=1");
}
