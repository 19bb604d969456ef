//! Localities that DestinationRules order: requests of each backend counted, through ejection, changed endpoints,
//! changed rules and shares.

use serde_json::json;
use tributary_suites::{Backend, http_client};

use super::*;

const HOST: &str = "pay.test";

/// Backends in the client's zone, in another zone, and in another region.
struct Placed {
    world: World,
    near: Backend,
    next: Backend,
    far: Backend,
}

fn rule(policy: &str) -> String {
    format!(
        "apiVersion: networking.istio.io/v1\nkind: DestinationRule\nmetadata: {{name: pay, namespace: default}}\n\
         spec:\n  host: {HOST}\n  trafficPolicy: {{{policy}}}\n"
    )
}

/// Ejects an endpoint at its first failure, for long enough to count requests.
const EJECTS: &str = "outlierDetection: {consecutive5xxErrors: 1, interval: 100ms, baseEjectionTime: 4s, maxEjectionPercent: 100}";

impl Placed {
    async fn start(policy: &str) -> Result<Self> {
        let placed = Self::start_with(ServerOptions::default()).await?;
        placed.rule(policy)?;
        Ok(placed)
    }
    /// Starts without a rule.
    async fn start_with(options: ServerOptions) -> Result<Self> {
        let (near, next) = (Backend::start("near").await?, Backend::start("next").await?);
        let far = Backend::start("far").await?;
        let placed = Self { world: World::start_with(&[], options).await?, near, next, far };
        placed.world.put(&placed.entry())?;
        Ok(placed)
    }
    fn rule(&self, policy: &str) -> Result<()> {
        self.world.files.put("rule.yaml", &rule(policy))
    }
    fn entry(&self) -> Entry {
        self.without_near().with(self.near.addr(), "locality: r1/z1, labels: {tier: a}")
    }
    fn without_near(&self) -> Entry {
        Entry::http(HOST, 80)
            .with(self.next.addr(), "locality: r1/z2, labels: {tier: b}")
            .with(self.far.addr(), "locality: r2/z1, labels: {tier: c}")
    }
    async fn envoy(&self, variant: Variant, tier: &str) -> Result<Envoy> {
        let config = EnvoyConfig::new(self.world.xds(), variant).listen_for(&self.entry().cluster());
        let config = config.locality("r1", "z1", "").metadata(json!({"LABELS": {"tier": tier}}));
        let envoy = Envoy::start(&config).await?;
        envoy.live(SOON).await?;
        Ok(envoy)
    }
}

async fn answer(envoy: &Envoy) -> Result<String> {
    http_client::get_text(envoy.listener(0)?, "/").await
}

/// Waits for the first answer of a backend, then expects all of 40 requests there.
async fn all_reach(envoy: &Envoy, backend: &str) -> Result<()> {
    eventually(&format!("an answer of {backend}"), SOON, || async {
        let got = answer(envoy).await?;
        ensure!(got == backend, "{got} answered");
        Ok(())
    })
    .await?;
    for _ in 0..40 {
        let got = answer(envoy).await?;
        ensure!(got == backend, "{got} answered, not {backend}");
    }
    Ok(())
}

async fn fails_over(variant: Variant) -> Result<()> {
    let mut placed = Placed::start(EJECTS).await?;
    let envoy = placed.envoy(variant, "").await?;
    all_reach(&envoy, "near").await?;
    // the backend goes away, and comes back
    let at = placed.near.addr();
    placed.near.close().await;
    all_reach(&envoy, "next").await?;
    placed.near = Backend::start_at("near", at).await?;
    all_reach(&envoy, "near").await?;
    // its source removes it, and lists it again
    placed.world.put(&placed.without_near())?;
    all_reach(&envoy, "next").await?;
    placed.world.put(&placed.entry())?;
    all_reach(&envoy, "near").await?;
    nothing_refused(&envoy).await
}

#[tokio::test]
async fn next_zone_replaces_the_nearest_sotw() -> Result<()> {
    fails_over(Variant::Sotw).await
}

#[tokio::test]
async fn next_zone_replaces_the_nearest_delta() -> Result<()> {
    fails_over(Variant::Delta).await
}

#[tokio::test]
async fn labels_choose_the_first_endpoints() -> Result<()> {
    let by = |label: &str| {
        format!("{EJECTS}, loadBalancer: {{localityLbSetting: {{failoverPriority: [{label}]}}}}")
    };
    let placed = Placed::start(&by("tier")).await?;
    for variant in Variant::BOTH {
        let (a, c) = (placed.envoy(variant, "a").await?, placed.envoy(variant, "c").await?);
        all_reach(&a, "near").await?;
        all_reach(&c, "far").await?;
        placed.rule(&by("tier=b"))?;
        all_reach(&a, "next").await?;
        all_reach(&c, "next").await?;
        placed.rule(&by("tier"))?;
        all_reach(&c, "far").await?;
        all_reach(&a, "near").await?;
        nothing_refused(&a).await?;
        nothing_refused(&c).await?;
    }
    Ok(())
}

#[tokio::test]
async fn requests_follow_the_shares_of_localities() -> Result<()> {
    const REQUESTS: u32 = 1_000;
    let to = |near: u32, next: u32| {
        format!(
            "loadBalancer: {{localityLbSetting: {{distribute: [{{from: r1/z1/*, to: {{r1/z1/*: {near}, r1/z2/*: {next}}}}}]}}}}"
        )
    };
    let placed = Placed::start(&to(80, 20)).await?;
    for variant in Variant::BOTH {
        placed.rule(&to(80, 20))?;
        let envoy = placed.envoy(variant, "").await?;
        let cluster = placed.entry().cluster();
        envoy.has_hosts(&cluster, &[placed.near.addr(), placed.next.addr()], SOON).await?;
        let (near, far) = (placed.near.requests(), placed.far.requests());
        for _ in 0..REQUESTS {
            answer(&envoy).await?;
        }
        let share = f64::from(u32::try_from(placed.near.requests() - near)?);
        let (mean, deviation) = (f64::from(REQUESTS) * 0.8, (f64::from(REQUESTS) * 0.8 * 0.2).sqrt());
        ensure!((share - mean).abs() < 3.0 * deviation, "{share} of {REQUESTS} requests");
        ensure!(placed.far.requests() == far, "a locality without a share had requests");
        placed.rule(&to(1, 99))?;
        eventually("the new shares", SOON, || async {
            let before = placed.next.requests();
            for _ in 0..20 {
                answer(&envoy).await?;
            }
            ensure!(placed.next.requests() - before >= 18, "not yet");
            Ok(())
        })
        .await?;
        nothing_refused(&envoy).await?;
    }
    Ok(())
}

/// The mesh sets shares, and failover by a label; a rule of the host replaces them.
#[tokio::test]
async fn localities_of_the_mesh_apply_without_a_rule() -> Result<()> {
    let folder = Files::new()?;
    let setting = |text: &str| {
        let head = "apiVersion: tributary.dev/v1alpha1\nkind: Config";
        let text = format!("{head}\nsettings: {{locality: {{{text}}}}}\n");
        folder.put("tributary.yaml", &text)
    };
    setting("distribute: [{from: r1/z1/*, to: {r2/*: 100}}]")?;
    let placed =
        Placed::start_with(ServerOptions::default().config(&folder.path().join("tributary.yaml"))).await?;
    for variant in Variant::BOTH {
        setting("distribute: [{from: r1/z1/*, to: {r2/*: 100}}]")?;
        let envoy = placed.envoy(variant, "c").await?;
        all_reach(&envoy, "far").await?;
        placed.rule("loadBalancer: {localityLbSetting: {distribute: [{from: '*', to: {r1/z2/*: 100}}]}}")?;
        all_reach(&envoy, "next").await?;
        placed.rule(EJECTS)?;
        all_reach(&envoy, "far").await?;
        setting("failoverPriority: [tier=a]")?;
        all_reach(&envoy, "near").await?;
        placed.world.files.remove("rule.yaml")?;
        nothing_refused(&envoy).await?;
    }
    Ok(())
}
