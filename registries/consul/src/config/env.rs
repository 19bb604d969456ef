//! The `CONSUL_*` environment variables of Consul's own tools, for a registry that is named by address alone.

use std::collections::BTreeMap;
use std::path::PathBuf;

use secrecy::SecretString;

use super::{Address, Basic, ConfigError, ConsulConfig, TokenSource};

type Vars = BTreeMap<String, String>;

impl ConsulConfig {
    /// Builds a configuration from the variables. `address` takes precedence over `CONSUL_HTTP_ADDR`; without both,
    /// the agent of this machine is used.
    pub fn from_env(address: Option<&str>, vars: &Vars) -> Result<Self, ConfigError> {
        let ssl = flag(vars, "CONSUL_HTTP_SSL")?.unwrap_or(false);
        // like Consul's own tools, an address without TLS cannot override a request for TLS
        let secure = |text: &str| match ssl {
            true => text
                .split(',')
                .map(|one| one.trim().trim_start_matches("http://"))
                .collect::<Vec<_>>()
                .join(","),
            false => text.to_owned(),
        };
        let text = address.map(str::to_owned).or_else(|| get(vars, "CONSUL_HTTP_ADDR").map(secure));
        let text = text.unwrap_or_else(|| "127.0.0.1:8500".to_owned());
        let addresses = text.split(',').map(|one| Address::with_default_scheme(one, ssl));
        let mut config = Self::new(addresses.collect::<Result<_, _>>()?)?;
        config.apply_env(vars)?;
        Ok(config)
    }
    /// Applies all variables except the address; absent variables change nothing.
    pub fn apply_env(&mut self, vars: &Vars) -> Result<(), ConfigError> {
        if let Some(token) = token(vars) {
            self.auth.token = token;
        }
        if let Some(auth) = get(vars, "CONSUL_HTTP_AUTH") {
            let (user, password) = auth.split_once(':').unwrap_or((auth, ""));
            self.auth.basic = Some(Basic { user: user.to_owned(), password: SecretString::from(password) });
        }
        if let Some(verify) = flag(vars, "CONSUL_HTTP_SSL_VERIFY")? {
            self.tls.verify = verify;
        }
        let files = [
            ("CONSUL_CACERT", &mut self.tls.ca),
            ("CONSUL_CAPATH", &mut self.tls.ca_path),
            ("CONSUL_CLIENT_CERT", &mut self.tls.cert),
            ("CONSUL_CLIENT_KEY", &mut self.tls.key),
        ];
        for (name, field) in files {
            if let Some(path) = get(vars, name) {
                *field = Some(PathBuf::from(path));
            }
        }
        if let Some(name) = get(vars, "CONSUL_TLS_SERVER_NAME") {
            self.tls.server_name = Some(name.to_owned());
        }
        for (name, list) in
            [("CONSUL_NAMESPACE", &mut self.namespaces), ("CONSUL_PARTITION", &mut self.partitions)]
        {
            if let Some(value) = get(vars, name) {
                *list = vec![value.to_owned()];
            }
        }
        Ok(())
    }
}

/// Returns the token source; a token takes precedence over a token file.
fn token(vars: &Vars) -> Option<TokenSource> {
    let value = get(vars, "CONSUL_HTTP_TOKEN").map(|token| TokenSource::Value(SecretString::from(token)));
    value.or_else(|| get(vars, "CONSUL_HTTP_TOKEN_FILE").map(|path| TokenSource::File(path.into())))
}

fn get<'a>(vars: &'a Vars, name: &str) -> Option<&'a str> {
    vars.get(name).map(|value| value.trim()).filter(|value| !value.is_empty())
}

fn flag(vars: &Vars, name: &'static str) -> Result<Option<bool>, ConfigError> {
    let Some(value) = get(vars, name) else { return Ok(None) };
    match value.to_ascii_lowercase().as_str() {
        "1" | "t" | "true" => Ok(Some(true)),
        "0" | "f" | "false" => Ok(Some(false)),
        _ => Err(ConfigError::Variable { name, value: value.to_owned(), why: "write true or false" }),
    }
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;

    use super::*;

    fn mk_vars(pairs: &[(&str, &str)]) -> Vars {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn every_variable_has_its_effect() {
        let vars = mk_vars(&[
            ("CONSUL_HTTP_ADDR", "a:8501,http://b:8501"),
            ("CONSUL_HTTP_SSL", "true"),
            ("CONSUL_HTTP_SSL_VERIFY", "0"),
            ("CONSUL_HTTP_AUTH", "me:hunter2:x"),
            ("CONSUL_HTTP_TOKEN", "t"),
            ("CONSUL_HTTP_TOKEN_FILE", "token"),
            ("CONSUL_CACERT", "ca.pem"),
            ("CONSUL_CAPATH", "cas"),
            ("CONSUL_CLIENT_CERT", "cert.pem"),
            ("CONSUL_CLIENT_KEY", "key.pem"),
            ("CONSUL_TLS_SERVER_NAME", "server.dc1.consul"),
            ("CONSUL_NAMESPACE", "shop"),
            ("CONSUL_PARTITION", "eu"),
        ]);
        let config = ConsulConfig::from_env(None, &vars).unwrap();
        assert_eq!(
            config.addresses.iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["https://a:8501", "https://b:8501"]
        );
        let TokenSource::Value(token) = &config.auth.token else { panic!("{:?}", config.auth.token) };
        assert_eq!(token.expose_secret(), "t");
        let basic = config.auth.basic.as_ref().unwrap();
        assert_eq!((basic.user.as_str(), basic.password.expose_secret()), ("me", "hunter2:x"));
        let tls = &config.tls;
        let files = [&tls.ca, &tls.ca_path, &tls.cert, &tls.key];
        let paths: Vec<_> = files.into_iter().flatten().cloned().collect();
        assert_eq!(paths, ["ca.pem", "cas", "cert.pem", "key.pem"].map(PathBuf::from));
        assert_eq!((tls.verify, tls.server_name.as_deref()), (false, Some("server.dc1.consul")));
        assert_eq!((config.namespaces, config.partitions), (vec!["shop".to_owned()], vec!["eu".to_owned()]));
    }

    #[test]
    fn given_address_wins_and_default_is_the_local_agent() {
        let vars = mk_vars(&[
            ("CONSUL_HTTP_ADDR", "a:1"),
            ("CONSUL_HTTP_TOKEN_FILE", "f"),
            ("CONSUL_HTTP_TOKEN", ""),
        ]);
        let config = ConsulConfig::from_env(Some("http://b:2"), &vars).unwrap();
        assert_eq!(config.addresses[0].to_string(), "http://b:2");
        assert!(matches!(config.auth.token, TokenSource::File(_)), "an empty token counts as absent");
        let bare = ConsulConfig::from_env(None, &Vars::new()).unwrap();
        assert_eq!(bare.addresses[0].to_string(), "http://127.0.0.1:8500");
        assert!(matches!(bare.auth.token, TokenSource::None) && bare.tls.verify);
    }

    #[test]
    fn invalid_variable_is_an_error_and_secrets_are_hidden() {
        let error = ConsulConfig::from_env(None, &mk_vars(&[("CONSUL_HTTP_SSL", "maybe")])).unwrap_err();
        assert_eq!(error.to_string(), "CONSUL_HTTP_SSL is \"maybe\"; write true or false");
        let vars = mk_vars(&[("CONSUL_HTTP_TOKEN", "hunter2"), ("CONSUL_HTTP_AUTH", "me:hunter2")]);
        let shown = format!("{:?}", ConsulConfig::from_env(None, &vars).unwrap());
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}
