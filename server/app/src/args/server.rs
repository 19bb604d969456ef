//! Flags of every command that requests a server: its address, what is presented to it, and the timeout.

use std::path::PathBuf;

use clap::Args;

use crate::config::Span;

/// Server that a command requests, and what is presented to it. Every command that requests a server has these flags.
#[derive(Debug, Clone, Args)]
pub struct ConnectionArgs {
    /// The admin address of the server, several with commas between them, or pods://NAMESPACE[/POD] for replicas in a cluster
    /// [default: http://127.0.0.1:15014] [env: TRIBUTARY_SERVER]
    #[arg(long, value_name = "URL")]
    pub server: Option<String>,
    /// The authorities of a server at https://, PEM [default: those of the system] [env: TRIBUTARY_SERVER_CA]
    #[arg(long, value_name = "FILE")]
    pub server_ca: Option<PathBuf>,
    /// The token to present to a server at https:// [env: TRIBUTARY_SERVER_TOKEN]
    #[arg(long, value_name = "FILE")]
    pub server_token: Option<PathBuf>,
    /// The certificate to present to a server at https://, PEM [env: TRIBUTARY_SERVER_CERT]
    #[arg(long, value_name = "FILE")]
    pub server_cert: Option<PathBuf>,
    /// The key of the certificate, PEM [env: TRIBUTARY_SERVER_KEY]
    #[arg(long, value_name = "FILE")]
    pub server_key: Option<PathBuf>,
}

/// Server of a command that sends single requests.
#[derive(Debug, Clone, Args)]
pub struct ServerArgs {
    /// Server to request.
    #[command(flatten)]
    pub connection: ConnectionArgs,
    /// Timeout of a request
    #[arg(long, value_name = "TIME", default_value = "10s")]
    pub timeout: Span,
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser as _};

    use crate::args::Cli;

    #[test]
    fn every_command_of_a_server_has_the_flags_of_its_connection() {
        fn walk(command: &clap::Command, found: &mut usize) {
            let has = |flag: &str| command.get_arguments().any(|arg| arg.get_long() == Some(flag));
            if has("server") {
                *found += 1;
                for flag in ["server-ca", "server-token", "server-cert", "server-key", "timeout"] {
                    assert!(has(flag), "`{}` lacks --{flag}", command.get_name());
                }
            }
            command.get_subcommands().for_each(|sub| walk(sub, found));
        }
        let mut found = 0;
        walk(&Cli::command(), &mut found);
        assert!(found > 15, "{found} commands");
        let wait = ["wait", "--for=ready", "--server-ca", "ca.pem", "--server-token", "t"];
        let parsed = Cli::try_parse_from(std::iter::once("tributary").chain(wait));
        let Ok(crate::args::Command::Wait(args)) = parsed.map(|cli| cli.command) else { panic!("refused") };
        assert_eq!(args.connection.server_ca, Some("ca.pem".into()));
    }
}
