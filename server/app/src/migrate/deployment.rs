//! Arguments and environment of an istiod, from its Deployment.
//!
//! Documents come from files and from API servers. A document that is not as expected is refused with its reason; nothing is guessed.

use serde_json::Value;

use super::flags::is_switch;

/// Name of the argument that starts discovery.
const COMMAND: &str = "discovery";

/// Flag or variable of an istiod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// Name.
    pub name: String,
    /// Value; `None` if it comes from elsewhere.
    pub value: Option<String>,
    /// Where the value comes from, if it is not in the Deployment.
    pub from: String,
}

impl Setting {
    fn new(name: &str, value: &str) -> Self {
        Self { name: name.to_owned(), value: Some(value.to_owned()), from: String::new() }
    }
    /// Returns where the value comes from, and not the value: what is not known may be a secret.
    #[must_use]
    pub fn hidden(&self) -> String {
        self.value.as_ref().map_or_else(|| format!("from {}", self.from), |_| "set".to_owned())
    }
    /// Returns the value for people.
    #[must_use]
    pub fn shown(&self) -> String {
        self.value.clone().unwrap_or_else(|| format!("from {}", self.from))
    }
}

/// What an istiod is started with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Istiod {
    /// Namespace and name of its Deployment.
    pub name: String,
    /// Flags, in order.
    pub flags: Vec<Setting>,
    /// Variables, in order.
    pub variables: Vec<Setting>,
}

impl Istiod {
    /// Returns the value of a variable that is set in the Deployment; of several the last counts, as in Kubernetes.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<&str> {
        self.variables.iter().rev().find(|variable| variable.name == name)?.value.as_deref()
    }
    /// Reads a Deployment.
    pub fn of(deployment: &Value) -> Result<Self, String> {
        let at = |pointer: &str| deployment.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let name = format!("{}/{}", at("/metadata/namespace"), at("/metadata/name"));
        let container = container(deployment)
            .ok_or_else(|| format!("Deployment {name} has no container with the argument `{COMMAND}`"))?;
        Ok(Self { flags: flags(&args(container)), variables: variables(container), name })
    }
    /// Returns the revision in the labels of a Deployment; `default` without one, as an istiod takes it.
    #[must_use]
    pub fn revision_of(deployment: &Value) -> &str {
        let label = deployment.pointer("/metadata/labels/istio.io~1rev").and_then(Value::as_str);
        label.filter(|label| !label.is_empty()).unwrap_or("default")
    }
    /// Returns the name of the ConfigMap with the mesh configuration.
    #[must_use]
    pub fn mesh_map(&self) -> String {
        let revision = self.value("REVISION").filter(|revision| !["", "default"].contains(revision));
        revision.map_or_else(|| "istio".to_owned(), |revision| format!("istio-{revision}"))
    }
    /// Whether a document is a Deployment of an istiod.
    #[must_use]
    pub fn is_in(document: &Value) -> bool {
        document["kind"] == "Deployment" && container(document).is_some()
    }
}

fn container(deployment: &Value) -> Option<&Value> {
    let all = deployment.pointer("/spec/template/spec/containers")?.as_array()?;
    all.iter().find(|container| args(container).iter().any(|arg| arg == COMMAND))
}

fn args(container: &Value) -> Vec<String> {
    let of = |field: &str| container[field].as_array().cloned().unwrap_or_default();
    let text = |value: Value| value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned);
    of("command").into_iter().chain(of("args")).map(text).collect()
}

/// Parses `--name=value`, `--name value`, `-n value` and switches, in the order of the arguments.
fn flags(args: &[String]) -> Vec<Setting> {
    let mut out = Vec::new();
    let mut rest = args.iter().peekable();
    while let Some(arg) = rest.next() {
        let Some(flag) =
            arg.strip_prefix("--").or_else(|| arg.strip_prefix('-')).filter(|flag| !flag.is_empty())
        else {
            continue;
        };
        let setting = match flag.split_once('=') {
            Some((name, value)) => Setting::new(name, value),
            None if is_switch(flag) || rest.peek().is_none_or(|next| next.starts_with('-')) => {
                Setting::new(flag, "true")
            }
            None => Setting::new(flag, rest.next().map_or("", String::as_str)),
        };
        out.push(setting);
    }
    out
}

fn variables(container: &Value) -> Vec<Setting> {
    let list = |field: &str| container[field].as_array().into_iter().flatten();
    let own = list("env").filter_map(|variable| {
        let name = variable["name"].as_str()?.to_owned();
        let from = source(&variable["valueFrom"]);
        let value = from.is_empty().then(|| match &variable["value"] {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        });
        Some(Setting { name, value, from })
    });
    let whole = list("envFrom").map(|from| {
        let name = format!("envFrom {}", source(from));
        Setting { name, value: None, from: "an object whose names are not read".to_owned() }
    });
    own.chain(whole).collect()
}

/// Names the object and key that a value comes from; empty without one.
fn source(from: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let kinds = [
        ("fieldRef", "field", "fieldPath"),
        ("resourceFieldRef", "resource", "resource"),
        ("configMapKeyRef", "ConfigMap", "name"),
        ("secretKeyRef", "Secret", "name"),
        ("configMapRef", "ConfigMap", "name"),
        ("secretRef", "Secret", "name"),
    ];
    let found = kinds.iter().find(|(field, ..)| from.get(field).is_some());
    found.map(|(field, kind, name)| format!("{kind} {}", text(&from[field][name]))).unwrap_or_default()
}
