//! Remote clusters as they are declared: kubeconfigs of Secrets and files, reduced to what a server may use.
//!
//! A kubeconfig of another origin can run programs, read files and lead to addresses inside this machine. Its bytes become a
//! [`VettedKubeconfig`], an allow-list without a field for any of that, or [`Refused`]: every fault with the name of its field and the
//! next step, and never a value. [`read_file`] finds the kubeconfigs in a file or in Secret manifests, and
//! [`VettedKubeconfig::connect`] opens a connection with one. The application calls them.
//! [`SecretFollower`] reads the Secrets of a watch and [`DirectoryFollower`] the files of a directory, and [`roster`] decides from their
//! claims which clusters the server should hold. [`RemoteServer`] and [`NewSecret`] compose the Secret of a new cluster, and
//! [`StoredSecret`] the edits of one.
//!
//! Every function but `connect` is synchronous and pure: no I/O, no clock. A key of digests is random.

mod address;
mod allowed;
mod checksum;
mod compose;
mod connect;
mod credential_work;
mod directory;
mod kubeconfig;
mod manifest;
mod refusal;
pub mod roster;
mod secret;
mod secret_follower;
mod stored;
mod yaml;

pub use address::{AddressClass, Blocked};
pub use allowed::{Allowed, Feature, InvalidCidr, UnknownFeature, parse_cidr};
pub use compose::{NewSecret, RemoteServer, secret_name};
pub use credential_work::{
    Attempts, CredentialFacts, CredentialWork, SecretWrite, WriteFailure, due, is_overdue, life, renewal,
};
pub use directory::{DirectoryFollower, EXTENSIONS, FileContent, Look};
pub use kubeconfig::{ClientCertificate, Impersonation, MAX_BYTES, Password, Validity, VettedKubeconfig};
pub use manifest::{Declared, LABELS, MAX_FILE_BYTES, read_file};
pub use refusal::{OptIn, Refusal, Refused};
pub use secret::{DeclaredClusters, SECRETS, Secret};
pub use secret_follower::SecretFollower;
pub use stored::{EditRefused, Removal, StoredSecret, UsedAccount};
