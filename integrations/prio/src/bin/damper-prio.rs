//! The command `damper-prio`: the two aggregators, a gateway's upload, and the collector.

use clap::{Args, Parser, Subcommand, ValueEnum};
use damper_federation::{Asked, Envelope, FederationEpsilon, FederationPlan, MemberKey, request_digest};
use damper_files::{Access, AtomicFile};
use damper_prio::link::{AggregatorAddress, Link, Patience, RemoteHelper};
use damper_prio::server::serve;
use damper_prio::tls::{Fingerprint, PartyIdentity};
use damper_prio::{
    Aggregator, AggregatorRequest, Answer, Gateway, Leader, Party, Refusal, ReportSet, Role, Scheme, Service, combine,
};
use rustls::ClientConfig;
use serde::Serialize;
use std::fmt::Display;
use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Secure aggregation of damper's updates: two aggregators, neither of which sees an update.
#[derive(Parser)]
#[command(version, about)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs one of the two aggregators
    Aggregator(AggregatorArgs),
    /// Splits a device's update between the aggregators, signs it and sends it. A repeated call sends the same report
    Upload(UploadArgs),
    /// Puts the aggregators' shares of a round's sum together
    Collect(CollectArgs),
}

#[derive(Args)]
struct TlsArgs {
    /// The certificate of the federation's authority, PEM
    #[arg(long, value_name = "FILE")]
    ca: PathBuf,
    /// This party's certificate, PEM
    #[arg(long, value_name = "FILE")]
    cert: PathBuf,
    /// Its key, PEM
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
}

#[derive(Args)]
struct ServersArgs {
    /// The leader
    #[arg(long, value_name = "HOST:PORT")]
    leader: String,
    /// The helper
    #[arg(long, value_name = "HOST:PORT")]
    helper: String,
    /// The SHA-256 of the leader's certificate: every other certificate is rejected, whatever the authority signed
    #[arg(long, value_name = "HEX")]
    leader_fingerprint: Option<Fingerprint>,
    /// The SHA-256 of the helper's certificate
    #[arg(long, value_name = "HEX")]
    helper_fingerprint: Option<Fingerprint>,
}

#[derive(Args)]
struct RoundArgs {
    /// The plan of the federation
    #[arg(long, value_name = "FILE")]
    plan: PathBuf,
    /// The round, counted from 0
    #[arg(long, value_name = "T")]
    round: u32,
    /// The trained parameters of the round: float32 words, little-endian [default in round 0: the model's]
    #[arg(long, value_name = "FILE")]
    params: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum RoleArg {
    Leader,
    Helper,
}

#[derive(Args)]
struct AggregatorArgs {
    /// The aggregator's role
    #[arg(long)]
    role: RoleArg,
    /// The plan of the federation
    #[arg(long, value_name = "FILE")]
    plan: PathBuf,
    /// Address to listen on. Port 0 selects a free port
    #[arg(long, value_name = "HOST:PORT")]
    listen: String,
    /// The helper, for the leader
    #[arg(long, value_name = "HOST:PORT", required_if_eq("role", "leader"))]
    peer: Option<String>,
    /// The SHA-256 of the other aggregator's certificate: every other certificate is rejected, whatever the authority
    /// signed
    #[arg(long, value_name = "HEX")]
    peer_fingerprint: Option<Fingerprint>,
    /// Its folder with reports, keys, cohorts, shares and the charged rounds, made if it is not there
    #[arg(long, value_name = "DIR")]
    folder: PathBuf,
    #[command(flatten)]
    tls: TlsArgs,
}

#[derive(Args)]
struct UploadArgs {
    #[command(flatten)]
    round: RoundArgs,
    /// The device's update, from damper federation update or a board
    #[arg(long, value_name = "FILE")]
    update: PathBuf,
    /// The secret key of the member whose update it is
    #[arg(long, value_name = "FILE")]
    key_of_member: PathBuf,
    /// Time of the request to the device, in seconds since 1970. If the plan fixes the reply delay, the report is sent
    /// that long after this time
    #[arg(long, value_name = "SECONDS")]
    requested_at: Option<u64>,
    /// The gateway's folder, which stores a report before it is sent, made if it is not there
    #[arg(long, value_name = "DIR")]
    folder: PathBuf,
    #[command(flatten)]
    servers: ServersArgs,
    #[command(flatten)]
    tls: TlsArgs,
}

#[derive(Args)]
struct CollectArgs {
    #[command(flatten)]
    round: RoundArgs,
    /// The sum, for damper federation apply
    #[arg(short, long, value_name = "FILE")]
    out: PathBuf,
    /// Seconds to wait for the leader, which verifies the reports that are left
    #[arg(long, value_name = "S", default_value_t = 600, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    wait: u32,
    /// Prints one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    servers: ServersArgs,
    #[command(flatten)]
    tls: TlsArgs,
}

/// An error of one line: place, problem and fix.
struct Failure(String);

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

impl Failure {
    fn of_file(file: &Path, error: impl Display) -> Self {
        Self(format!("{}: {error}", file.display()))
    }
}

fn main() -> ExitCode {
    let result = match CommandLine::parse().command {
        Command::Aggregator(args) => aggregator(args),
        Command::Upload(args) => upload(&args),
        Command::Collect(args) => collect(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure(text)) => {
            eprintln!("error: {}", text.replace('\n', " "));
            ExitCode::FAILURE
        }
    }
}

/// Reads a file of at most `most` bytes.
fn read_file(file: &Path, most: u64) -> Result<Vec<u8>, Failure> {
    let mut bytes = vec![];
    let read = File::open(file).and_then(|open| open.take(most + 1).read_to_end(&mut bytes));
    read.map_err(|error| Failure::of_file(file, format_args!("{error}; name a file that can be read")))?;
    if bytes.len() as u64 > most {
        return Err(Failure::of_file(file, format_args!("longer than {most} bytes; name the right file")));
    }
    Ok(bytes)
}

fn read_plan(file: &Path) -> Result<FederationPlan, Failure> {
    FederationPlan::from_json(&read_file(file, 1 << 32)?).map_err(|error| Failure::of_file(file, error))
}

/// Returns the plan, and the digest of the request in the round.
fn read_round(args: &RoundArgs) -> Result<(FederationPlan, [u8; 32]), Failure> {
    let plan = read_plan(&args.plan)?;
    if args.round >= plan.rounds {
        let last = plan.rounds - 1;
        return Err(Failure(format!("--round {}: the plan has rounds 0 to {last}; give one of them", args.round)));
    }
    let Some(file) = &args.params else {
        if args.round > 0 {
            return Err(Failure(
                "--params: needed from round 1 on; give the file that damper federation apply wrote".into(),
            ));
        }
        return Ok((plan.clone(), request_digest(&plan, args.round, None)));
    };
    let bytes = read_file(file, 4 * u64::from(plan.parameters))?;
    let params: Vec<f32> = bytes.as_chunks().0.iter().map(|word| f32::from_le_bytes(*word)).collect();
    if bytes.len() as u64 != 4 * u64::from(plan.parameters) || !params.iter().all(|param| param.is_finite()) {
        let wanted = plan.parameters;
        let problem = format!("not {wanted} finite float32 words; give the file that damper federation apply wrote");
        return Err(Failure::of_file(file, problem));
    }
    let request = request_digest(&plan, args.round, Some(&params));
    Ok((plan, request))
}

fn identity(party: Party, args: &TlsArgs) -> Result<PartyIdentity, Failure> {
    Ok(PartyIdentity::read(party, &args.ca, &args.cert, &args.key)?)
}

fn log(text: &str) {
    // An error of the log is ignored.
    let _ = writeln!(std::io::stderr(), "{text}");
}

fn aggregator(args: AggregatorArgs) -> Result<(), Failure> {
    let plan = read_plan(&args.plan)?;
    let (role, party) = match args.role {
        RoleArg::Leader => (Role::Leader, Party::Leader),
        RoleArg::Helper => (Role::Helper, Party::Helper),
    };
    let identity = identity(party, &args.tls)?;
    let config = identity.server()?;
    let patience = Patience::of_leader(&plan);
    let aggregator = Aggregator::open(&args.folder, plan, role, log).map_err(|error| match error {
        damper_prio::FolderError::Plan(problem) => Failure::of_file(&args.plan, problem),
        error => error.into(),
    })?;
    let service = match (role, args.peer) {
        (Role::Leader, Some(peer)) => {
            let fingerprint = args.peer_fingerprint;
            let address =
                AggregatorAddress { address: peer, party: Party::Helper, fingerprint, config: identity.client()? };
            Service::Leader(Leader::new(aggregator, Box::new(RemoteHelper::new(address, patience, log))))
        }
        (Role::Helper, None) => Service::Helper(aggregator),
        (Role::Leader, None) => return Err(Failure("--peer: the leader asks the helper; give its address".into())),
        (Role::Helper, Some(_)) => {
            return Err(Failure("--peer: the helper asks nobody; leave it out, or give --role leader".into()));
        }
    };
    let in_listen = |error| Failure(format!("--listen {}: {error}; give another address", args.listen));
    let listener = TcpListener::bind(&args.listen).map_err(in_listen)?;
    let address = listener.local_addr().map_err(in_listen)?;
    println!("{} listens on {address}", role.name());
    std::io::stdout().flush()?;
    let leader = args.peer_fingerprint.filter(|_| role == Role::Helper);
    serve(&listener, service, config, leader)
}

/// Returns the addresses of the leader and the helper.
fn servers(args: &ServersArgs, config: &Arc<ClientConfig>) -> [AggregatorAddress; 2] {
    [(&args.leader, Party::Leader, args.leader_fingerprint), (&args.helper, Party::Helper, args.helper_fingerprint)]
        .map(|(address, party, fingerprint)| AggregatorAddress {
            address: address.clone(),
            party,
            fingerprint,
            config: config.clone(),
        })
}

/// Sends one request to an aggregator.
fn ask(to: &AggregatorAddress, request: &AggregatorRequest, patience: Patience) -> Result<Answer, Failure> {
    let AggregatorAddress { address, party, .. } = to;
    let name = party.name();
    let answer = Link::connect(to).and_then(|mut link| link.ask(request, patience)).map_err(|error| {
        Failure(format!(
            "--{name} {address}: {error}; see that the {name} runs there and that the certificates are of one authority, and call this again"
        ))
    })?;
    match answer {
        Answer::Refused(refusal) => Err(refused(to, refusal)),
        answer => Ok(answer),
    }
}

fn refused(to: &AggregatorAddress, refusal: Refusal) -> Failure {
    Failure(format!("{} {}: {refusal}", to.party.name(), to.address))
}

/// Returns the time at which the plan has the device reply.
fn due(plan: &FederationPlan, requested_at: Option<u64>) -> Result<Option<SystemTime>, Failure> {
    match (plan.reply_seconds, requested_at) {
        (None, None) => Ok(None),
        (Some(delay), Some(asked)) => {
            let delay = u64::from(delay);
            let due = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(asked.saturating_add(delay)));
            // A time of another clock or unit could delay the report for years.
            let latest = SystemTime::now() + Duration::from_secs(delay);
            let due = due.filter(|due| *due <= latest);
            let problem = "it is in the future; give the seconds since 1970 at which the device was asked";
            due.map(Some).ok_or_else(|| Failure(format!("--requested-at {asked}: {problem}")))
        }
        (Some(delay), None) => Err(Failure(format!(
            "--requested-at: the plan has devices answer {delay} s after they are asked; give the seconds since 1970 at which this one was"
        ))),
        (None, Some(_)) => Err(Failure("--requested-at: the plan has no fixed delay; leave it out".into())),
    }
}

fn upload(args: &UploadArgs) -> Result<(), Failure> {
    let (plan, request) = read_round(&args.round)?;
    let round = args.round.round;
    let identity = identity(Party::Gateway, &args.tls)?;
    let [leader, helper] = servers(&args.servers, &identity.client()?);
    let key = MemberKey::read(&args.key_of_member)?;
    let file = read_file(&args.update, 4 * u64::from(plan.parameters) + 4096)?;
    // With members, a device signs its update. The request in it must then be this request.
    let update = if file.starts_with(b"DAMPERSG") {
        let envelope = Envelope::open(&Asked::new(&plan, round, request), &file);
        envelope.map_err(|error| Failure::of_file(&args.update, error))?.update
    } else {
        &file
    };
    let due = due(&plan, args.requested_at)?;
    let gateway = Gateway::open(&args.folder)?;
    let reported = gateway.report(&plan, round, request, update, &key, due);
    let [of_leader, of_helper] = reported.map_err(|error| Failure::of_file(&args.update, error))?;
    let (device, bytes) = (of_leader.device, of_leader.to_bytes().len() + of_helper.to_bytes().len());
    if let Some(left) = due.and_then(|due| due.duration_since(SystemTime::now()).ok()) {
        std::thread::sleep(left);
    }
    // The helper is first, because the leader asks it for the report after it has its own part.
    for (to, part) in [(&helper, of_helper), (&leader, of_leader)] {
        match ask(to, &AggregatorRequest::Upload(part), Patience::of_upload())? {
            Answer::Done => {}
            _ => return Err(refused(to, Refusal::Malformed)),
        }
    }
    println!("device {device}, round {round}: both aggregators have its report, {bytes} bytes");
    Ok(())
}

#[derive(Serialize)]
struct Collected {
    round: u32,
    devices: Vec<u64>,
    parameters: u32,
    /// ε of rounds 0 to this round.
    epsilon: FederationEpsilon,
    delta: f64,
    rounds: u32,
    out: String,
}

fn collect(args: &CollectArgs) -> Result<(), Failure> {
    let (plan, request) = read_round(&args.round)?;
    let round = args.round.round;
    let identity = identity(Party::Collector, &args.tls)?;
    let servers = servers(&args.servers, &identity.client()?);
    // Detect an unwritable file before the round is charged.
    let mut out = AtomicFile::create(&args.out, Access::Public)?;
    let patience = Patience::of_collect(&plan, Duration::from_secs(args.wait.into()));
    let question = AggregatorRequest::Collect(plan.digest(), round, request);
    let mut given: Vec<(ReportSet, Vec<u8>)> = vec![];
    for server in &servers {
        match ask(server, &question, patience)? {
            Answer::Share(cohort, share) => given.push((cohort, share)),
            _ => return Err(refused(server, Refusal::Malformed)),
        }
    }
    let [(cohort, leaders), (helpers_cohort, helpers)] = &given[..] else {
        return Err(refused(&servers[0], Refusal::Malformed));
    };
    let is_of_plan = cohort.reports.keys().all(|device| (1..=u64::from(plan.devices)).contains(device))
        && cohort.reports.len() as u64 >= u64::from(plan.smallest_cohort)
        && (cohort.round, cohort.request) == (round, request);
    if cohort != helpers_cohort || !is_of_plan {
        return Err(refused(&servers[1], Refusal::Cohort));
    }
    let scheme = Scheme::of_plan(&plan, round)?;
    let sum = combine(&scheme, cohort.reports.len(), [leaders, helpers])?;
    out.write_all(&sum).map_err(|error| out.failed(&error))?;
    out.commit()?;
    let found = Collected {
        round,
        devices: cohort.reports.keys().copied().collect(),
        parameters: plan.parameters,
        epsilon: plan.epsilon(round + 1)?,
        delta: plan.delta,
        rounds: plan.rounds,
        out: args.out.display().to_string(),
    };
    if args.json {
        println!("{}", serde_json::to_string(&found)?);
        return Ok(());
    }
    let FederationEpsilon { outsider, participant, server } = found.epsilon;
    let server = server.map_or_else(|| "none".to_owned(), damper_accounting::upward);
    println!(
        "round {round}: the sum of {} devices, {} parameters\nepsilon of each {} at delta {:e} after {} of {} rounds: {} for an outsider, {} for a \
         participant, {server} for either aggregator while the other one is honest\nwrote {}",
        found.devices.len(),
        found.parameters,
        plan.unit,
        plan.delta,
        round + 1,
        plan.rounds,
        damper_accounting::upward(outsider),
        damper_accounting::upward(participant),
        found.out,
    );
    Ok(())
}
