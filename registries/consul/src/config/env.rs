//! The `CONSUL_*` environment variables of Consul's own tools, for a registry that is named by address alone.

use std::collections::BTreeMap;
use std::path::PathBuf;

use secrecy::SecretString;

use super::{Address, Basic, ConfigError, ConsulConfig, InvalidAddress, TokenSource};

/// Variable with the addresses.
const ADDRESS: &str = "CONSUL_HTTP_ADDR";

type Vars = BTreeMap<String, String>;

impl ConsulConfig {
    /// Builds a configuration from the variables. Their credentials go to the addresses in `CONSUL_HTTP_ADDR` only, if it
    /// is set. `address` takes precedence over `CONSUL_HTTP_ADDR`; without both,
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
        let parse = |text: &str| -> Result<Vec<Address>, InvalidAddress> {
            text.split(',').map(|one| Address::with_default_scheme(one, ssl)).collect()
        };
        let own = get(vars, ADDRESS).map(|text| parse(&secure(text))).transpose();
        let own = own.map_err(|e| ConfigError::Variable { name: ADDRESS, why: e.to_string() })?;
        let given = address.map(parse).transpose()?;
        let addresses = match (given, &own) {
            (Some(given), _) => given,
            (None, Some(own)) => own.clone(),
            (None, None) => parse("127.0.0.1:8500")?,
        };
        let mut config = Self::new(addresses)?;
        config.apply_env(vars)?;
        (config.auth.token_addresses, config.auth.basic_addresses) = (own.clone(), own);
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

/// Returns the token source; a token file takes precedence over a token, as in Consul's own client.
fn token(vars: &Vars) -> Option<TokenSource> {
    let file = get(vars, "CONSUL_HTTP_TOKEN_FILE").map(|path| TokenSource::File(path.into()));
    file.or_else(|| get(vars, "CONSUL_HTTP_TOKEN").map(|token| TokenSource::Value(SecretString::from(token))))
}

fn get<'a>(vars: &'a Vars, name: &str) -> Option<&'a str> {
    vars.get(name).map(|value| value.trim()).filter(|value| !value.is_empty())
}

fn flag(vars: &Vars, name: &'static str) -> Result<Option<bool>, ConfigError> {
    let Some(value) = get(vars, name) else { return Ok(None) };
    match value.to_ascii_lowercase().as_str() {
        "1" | "t" | "true" => Ok(Some(true)),
        "0" | "f" | "false" => Ok(Some(false)),
        _ => {
            let shown: String = value.chars().take(40).collect();
            Err(ConfigError::Variable {
                name,
                why: format!("`{shown}` is not a boolean; write true or false"),
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

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
        assert!(matches!(&config.auth.token, TokenSource::File(path) if path == Path::new("token")));
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
    fn token_file_precedes_token() {
        let vars = mk_vars(&[("CONSUL_HTTP_TOKEN", "t"), ("CONSUL_HTTP_TOKEN_FILE", "f")]);
        let config = ConsulConfig::from_env(None, &vars).unwrap();
        assert!(matches!(config.auth.token, TokenSource::File(_)), "{:?}", config.auth.token);
    }

    #[test]
    fn environment_credentials_go_to_the_environments_address_only() {
        let addresses = |given: Option<&str>, own: Option<&str>| {
            let mut vars = mk_vars(&[("CONSUL_HTTP_TOKEN", "t"), ("CONSUL_HTTP_AUTH", "me:hunter2")]);
            vars.extend(own.map(|own| ("CONSUL_HTTP_ADDR".to_owned(), own.to_owned())));
            let auth = ConsulConfig::from_env(given, &vars).unwrap().auth;
            assert_eq!(auth.token_addresses, auth.basic_addresses);
            auth.token_addresses.map(|all| all.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        assert_eq!(addresses(Some("b:2"), None), None, "they were given for any address");
        assert_eq!(addresses(Some("b:2"), Some("a:1,b:2")).unwrap(), ["http://a:1", "http://b:2"]);
        assert_eq!(addresses(None, Some("a:1")).unwrap(), ["http://a:1"]);
    }

    #[test]
    fn invalid_variable_is_an_error_and_secrets_are_hidden() {
        let error = ConsulConfig::from_env(None, &mk_vars(&[("CONSUL_HTTP_SSL", "maybe")])).unwrap_err();
        assert_eq!(error.to_string(), "CONSUL_HTTP_SSL: `maybe` is not a boolean; write true or false");
        for address in ["nonsense://", "a:1,htp:/x", "http://me:hunter2@c:8500"] {
            let error = ConsulConfig::from_env(None, &mk_vars(&[("CONSUL_HTTP_ADDR", address)])).unwrap_err();
            let text = error.to_string();
            assert!(text.starts_with("CONSUL_HTTP_ADDR: the address") && !text.contains("hunter2"), "{text}");
            assert_eq!(error.variable(), Some("CONSUL_HTTP_ADDR"));
        }
        let vars = mk_vars(&[("CONSUL_HTTP_TOKEN", "hunter2"), ("CONSUL_HTTP_AUTH", "me:hunter2")]);
        let shown = format!("{:?}", ConsulConfig::from_env(None, &vars).unwrap());
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}
