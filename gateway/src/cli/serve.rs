//! `sluicegate serve`: from the configuration to listeners, until a signal.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use crate::app::App;
use crate::config::Config;
use crate::server::Server;
use crate::state::StateDir;
use crate::tls::{self, Certificates, TlsAcceptor};
use crate::{admin, api, layers, telemetry};

/// Arguments of `sluicegate serve`.
#[derive(Debug, Args)]
pub(super) struct Serve {
    /// Configuration file; config.example.toml describes every key.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Address of the public listener, in place of the configuration's.
    #[arg(long, value_name = "ADDRESS")]
    host: Option<IpAddr>,
    /// Port of the public listener, in place of the configuration's.
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
}

impl Serve {
    /// Serves until SIGTERM or SIGINT, drains, and returns.
    ///
    /// # Errors
    /// The configuration is wrong, or something that it names can't be opened.
    pub(super) fn run(self) -> anyhow::Result<()> {
        let mut config = Config::load(&self.config)?;
        config.listen_on(self.host, self.port)?;
        telemetry::init(&config.server)?;
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        if config.server.threads > 0 {
            runtime.worker_threads(config.server.threads);
        }
        let runtime = runtime.enable_all().build().context("cannot start threads")?;
        let served = runtime.block_on(serve(config));
        runtime.shutdown_background();
        served
    }
}

async fn serve(config: Config) -> anyhow::Result<()> {
    // Asked for first, so that a signal during a slow start is not lost.
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let state = StateDir::open(&config.server.state_dir)?;
    let tls = acceptor(&config, &state)?;
    let app = tokio::task::spawn_blocking(move || App::build(config, &state)).await??;
    let app = Arc::new(app);
    let _watch = app.config.plugins.watch.then(|| app.plugins.watch()).transpose()?;

    let public = listen(app.config.server.listen).await?;
    let private = listen(app.config.admin.listen).await?;
    let server = |router, on: bool, stop| Server {
        router: layers::stack(router, &app),
        tls: on.then(|| tls.clone()).flatten(),
        limits: Arc::new(app.config.limits.clone()),
        stop,
        over: app.drain.over(),
        metrics: Arc::clone(&app.metrics),
    };
    announce("listening", app.config.server.tls, &public)?;
    announce("admin", app.config.admin.tls, &private)?;
    // Operators can watch the drain to its end.
    let admin = server(admin::routes(&app), app.config.admin.tls, app.drain.over()).run(private);
    let serving = server(api::routes(&app), app.config.server.tls, app.drain.begun()).run(public);
    let (admin, mut serving) = (tokio::spawn(admin), tokio::spawn(serving));

    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    let limit = app.config.limits.drain_timeout;
    tracing::info!(requests_running = app.running.len(), limit_s = limit.as_secs_f64(), "draining");
    app.drain
        .run(limit, async {
            let _ = (&mut serving).await;
        })
        .await;
    let _ = admin.await;
    let engines = Arc::clone(&app.engines);
    tokio::task::spawn_blocking(move || engines.shutdown(Duration::ZERO)).await?;
    tracing::info!("stopped");
    Ok(())
}

async fn listen(address: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}"))
}

/// One line on standard output for whoever started us: port 0 has become a real one.
fn announce(what: &str, tls: bool, listener: &TcpListener) -> anyhow::Result<()> {
    let scheme = if tls { "https" } else { "http" };
    println!("{what} {scheme}://{}", listener.local_addr()?);
    Ok(())
}

/// TLS with the configured certificate, or with the first run's own; none when no listener uses TLS.
fn acceptor(config: &Config, state: &StateDir) -> anyhow::Result<Option<TlsAcceptor>> {
    let server = &config.server;
    if !server.tls && !config.admin.tls {
        return Ok(None);
    }
    let (cert, key) = match (&server.ssl_certfile, &server.ssl_keyfile) {
        (Some(cert), Some(key)) => (cert.clone(), key.clone()),
        _ => tls::self_signed(state, &server.self_signed_names, server.listen.ip())?,
    };
    let certificates = Certificates::load(&cert, &key)?;
    tokio::spawn(Arc::clone(&certificates).watch());
    Ok(Some(TlsAcceptor::from(certificates.server_config()?)))
}
