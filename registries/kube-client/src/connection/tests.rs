//! Sources of credentials, and secrecy.

use std::path::Path;

use super::{ConnectError, ConnectOptions, Connection, Env};

fn kubeconfig(name: &str, user: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: {name}\n\
         contexts: [{{name: {name}, context: {{cluster: {name}, user: {name}}}}}]\n\
         clusters: [{{name: {name}, cluster: {{server: 'https://{name}.test:6443'}}}}]\n\
         users: [{{name: {name}, user: {{{user}}}}}]\n"
    )
}

fn write(home: &Path, name: &str, user: &str) -> String {
    let path = home.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, kubeconfig(&name.replace(['/', '.'], "-"), user)).unwrap();
    path.display().to_string()
}

fn open(options: &ConnectOptions, pairs: &[(&str, &str)]) -> Result<Connection, ConnectError> {
    let get =
        |name: &str| pairs.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
    Connection::open(options, Env::new(&get))
}

#[tokio::test]
async fn flag_precedes_variable_and_variable_precedes_home() {
    let home = tempfile::tempdir().unwrap();
    let (flag, listed) = (write(home.path(), "flag", "token: t"), write(home.path(), "listed", "token: t"));
    write(home.path(), ".kube/config", "token: t");
    let at_home = home.path().display().to_string();
    let by_flag = ConnectOptions { kubeconfig: Some(flag.into()), context: None };
    let none = ConnectOptions::default();
    let env = [("HOME", at_home.as_str()), ("KUBECONFIG", listed.as_str())];
    let servers = [
        open(&by_flag, &env).unwrap().server().to_owned(),
        open(&none, &env).unwrap().server().to_owned(),
        open(&none, &env[..1]).unwrap().server().to_owned(),
    ];
    assert_eq!(
        servers,
        ["https://flag.test:6443/", "https://listed.test:6443/", "https://-kube-config.test:6443/"]
    );
    assert_eq!(open(&none, &[]).unwrap_err(), ConnectError::Nothing);
}

#[tokio::test]
async fn listed_files_are_merged_and_a_context_is_selected() {
    let home = tempfile::tempdir().unwrap();
    let (a, b) =
        (write(home.path(), "a", "token: t"), write(home.path(), "b", "username: u, password: hunter2"));
    let list = format!("{}/missing:{a}:{b}", home.path().display());
    let env = [("KUBECONFIG", list.as_str())];
    let first = open(&ConnectOptions::default(), &env).unwrap();
    assert_eq!(first.server(), "https://a.test:6443/", "the first current-context wins");
    let context = |name: &str| ConnectOptions { kubeconfig: None, context: Some(name.to_owned()) };
    let second = open(&context("b"), &env).unwrap();
    assert_eq!(second.server(), "https://b.test:6443/");
    let described = format!("kubeconfig {a} merged with {b}, context b, user b (password)");
    assert_eq!(second.described(), described);
    let unknown = open(&context("c"), &env).unwrap_err().to_string();
    assert!(unknown.ends_with(r#"context "c" not found; use one of a, b"#), "{unknown}");
}

#[tokio::test]
async fn shown_text_holds_no_secret() {
    let home = tempfile::tempdir().unwrap();
    let path = write(home.path(), "k", "token: hunter2");
    let options = ConnectOptions { kubeconfig: Some((&path).into()), context: None };
    let shown = format!("{:?}", open(&options, &[]).unwrap());
    assert!(shown.contains("context k, user k (token)") && !shown.contains("hunter2"), "{shown}");
    std::fs::write(&path, "users: [{name: a, user: {token: [hunter2}}]").unwrap();
    let error = open(&options, &[]).unwrap_err();
    assert!(matches!(&error, ConnectError::Malformed(_)), "{error:?}");
    assert!(!format!("{error} {error:?}").contains("hunter2"));
}
