//! Writes: create, replace, delete, JSON patch, and access reviews.

use axum::body::Body;
use axum::http::{Method, Response};
use serde_json::{Value, json};

use crate::answer::json_of;
use crate::fault::{Answer, Fault};
use crate::server::{ApiServer, status};
use crate::store::{Kind, Name};

/// Performs a write by its method.
pub(crate) fn write(
    server: &ApiServer,
    kind: Kind,
    method: &Method,
    name: Option<Name>,
    namespace: Option<String>,
    body: Value,
) -> Response<Body> {
    match (method, name) {
        (&Method::POST, None) => create(server, kind, namespace, body),
        (&Method::PUT, Some(name)) => replace(server, kind, &name, body),
        (&Method::PATCH, Some(name)) => patch(server, kind, &name, &body),
        (&Method::DELETE, Some(name)) => {
            server.delete(kind.plural, &name.0, &name.1);
            json_of(200, &json!({"kind": "Status", "status": "Success"}))
        }
        _ => json_of(405, &status(405, "not here")),
    }
}

fn create(server: &ApiServer, kind: Kind, namespace: Option<String>, mut body: Value) -> Response<Body> {
    let namespace = namespace.unwrap_or_default();
    if !namespace.is_empty() {
        body["metadata"]["namespace"] = json!(namespace);
    }
    let name = body["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    if server.get(kind.plural, &namespace, &name).is_some() {
        return json_of(409, &status(409, "the object already exists"));
    }
    server.put(kind.plural, body);
    json_of(201, &server.get(kind.plural, &namespace, &name).expect("what was just put"))
}

fn replace(server: &ApiServer, kind: Kind, name: &Name, body: Value) -> Response<Body> {
    let Some(held) = server.get(kind.plural, &name.0, &name.1) else {
        return json_of(404, &status(404, "no such object"));
    };
    let requested = &body["metadata"]["resourceVersion"];
    if !requested.is_null() && *requested != held["metadata"]["resourceVersion"] {
        return json_of(409, &status(409, "the object has been modified"));
    }
    server.put(kind.plural, body);
    json_of(200, &server.get(kind.plural, &name.0, &name.1).expect("what was just put"))
}

fn patch(server: &ApiServer, kind: Kind, name: &Name, body: &Value) -> Response<Body> {
    let Some(mut object) = server.get(kind.plural, &name.0, &name.1) else {
        return json_of(404, &status(404, "no such object"));
    };
    for step in body.as_array().into_iter().flatten() {
        if let Err(message) = apply(&mut object, step) {
            return json_of(422, &status(422, &message));
        }
    }
    server.put(kind.plural, object);
    json_of(200, &server.get(kind.plural, &name.0, &name.1).expect("what was just put"))
}

/// One step of a JSON patch, over objects and the whole values of their fields.
fn apply(object: &mut Value, step: &Value) -> Result<(), String> {
    let path = step["path"].as_str().unwrap_or_default();
    let (parent, field) = path.rsplit_once('/').ok_or_else(|| format!("no path: {path}"))?;
    let field = field.replace("~1", "/").replace("~0", "~");
    let found = object.pointer(path).cloned();
    let into = object.pointer_mut(parent).ok_or_else(|| format!("{parent} is not there"))?;
    match step["op"].as_str().unwrap_or_default() {
        "test" if *found.as_ref().unwrap_or(&Value::Null) == step["value"] => Ok(()),
        "test" => Err(format!("{path} does not hold the tested value")),
        "add" => {
            into[field] = step["value"].clone();
            Ok(())
        }
        "replace" if found.is_some() => {
            into[field] = step["value"].clone();
            Ok(())
        }
        "remove" if found.is_some() => {
            into.as_object_mut().ok_or_else(|| format!("{parent} is not an object"))?.remove(&field);
            Ok(())
        }
        op => Err(format!("cannot {op} {path}")),
    }
}

/// Grants a right unless a fault refuses the resource with 403.
pub(crate) fn review(mut body: Value, faults: &[Fault]) -> Value {
    let resource = body["spec"]["resourceAttributes"]["resource"].as_str().unwrap_or_default().to_owned();
    let refused = faults
        .iter()
        .any(|fault| fault.part.contains(&resource) && matches!(fault.answer, Answer::Status(403, _)));
    body["status"] = json!({"allowed": !refused});
    body
}
