#include "tools/run_processes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <set>
#include <span>
#include <sstream>
#include <thread>
#include <vector>

#include "io/base/error.h"
#include "io/base/fault_text.h"
#include "io/base/host.h"
#include "io/base/machine.h"
#include "io/base/text.h"
#include "tools/build_digest.h"
#include "tools/launcher.h"
#include "tools/mpirun_settings.h"
#include "tools/option_settings.h"
#include "tools/process_table.h"
#include "tools/values.h"
#ifdef MILLRACE_HAS_MPI
#include "trainer/mpi/mpi_processes.h"
#include "trainer/pjrt/transport_store.h"
#endif

namespace millrace::tools {
namespace {

bool is_cancelled(const std::exception& error) {
  const auto* known = dynamic_cast<const Error*>(&error);
  return known != nullptr && known->code() == ErrorCode::kCancelled;
}

std::vector<std::string> gather(trainer::Cluster& cluster, const std::string& own) {
  std::vector<std::string> all;
  for (const auto& bytes : cluster.all_gather(std::as_bytes(std::span(own))))
    all.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return all;
}

/// How long a process may be silent, and be late at the start besides: its plugin's devices may
/// take longer to start than another's.
struct PeerTimes {
  std::chrono::seconds silent{0};
  std::chrono::seconds late{0};
};

PeerTimes peer_times(const ProcessOptions& options) {
  const bool has_plugin = !options.devices.is_cores();
  return {.silent = std::chrono::seconds(options.heartbeat_timeout),
          .late = std::chrono::seconds(has_plugin ? options.plugins.timeout : 0)};
}

}  // namespace

#ifdef MILLRACE_HAS_MPI

namespace {

/// Under srun MPI finds the others by PMIx; without it Open MPI ends the process with a page of
/// advice, and MPICH takes it for the only one.
void check_connected(const LaunchedProcesses& launched, const Environment& environment) {
  if (launched.variable != "SLURM_STEP_NUM_TASKS" || environment("PMIX_RANK")) return;
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("{}={}, but srun has not connected them, and MPI would find 1: start "
                          "with srun --mpi=pmix",
                          launched.variable, launched.count));
}

}  // namespace

namespace {

/// A start may take longer than a process may be silent later.
constexpr std::chrono::seconds kShortestStart{30};
/// What mpirun may take to end the daemons of its hosts, besides the time that it gives processes.
constexpr std::chrono::seconds kToEndDaemons{10};

trainer::MpiOptions mpi_options(const LaunchedProcesses& launched, const PeerTimes& times,
                                const CommandContext& context) {
  const bool is_first = launched.process == 0;
  const auto heartbeat_timeout = times.silent;
  const auto start = heartbeat_timeout.count() == 0
                         ? heartbeat_timeout
                         : std::max(heartbeat_timeout, kShortestStart) + times.late;
  return {.heartbeat_timeout = heartbeat_timeout,
          .start_timeout = start,
          .launcher_patience = kToEndDaemons + std::chrono::seconds(std::lround(
                                                   mpirun_kill_seconds(process_environment()))),
          .name = fmt::format("process {} on {}", launched.process, host_name()),
          .log = is_first ? context.log : Log::to_stderr(LogLevel::kError),
          .on_end = [signals = context.signals] {
            if (signals != nullptr) signals->stop();
          }};
}

}  // namespace

class RunProcesses::Started {
 public:
  Started(const LaunchedProcesses& launched, const PeerTimes& times, const CommandContext& context)
      : processes_(mpi_options(launched, times, context)) {
    if (processes_.processes() == launched.count) return;
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{}={}, but MPI finds {}: start with mpirun, or srun --mpi=pmix",
                            launched.variable, launched.count, processes_.processes()));
  }
  device::pjrt::Network network() {
    const int process = processes_.process();
    return {process, processes_.processes(),
            trainer::make_transport_store(processes_.transport(), process, processes_.processes())};
  }
  std::unique_ptr<trainer::Cluster> make_cluster(int devices,
                                                 const trainer::ClusterOptions& options) {
    return trainer::make_cluster(processes_.topology(devices), processes_.transport(), options);
  }
  int process() const { return processes_.process(); }
  const std::string& host() const { return processes_.host(); }
  const std::vector<std::string>& hosts() const { return processes_.hosts(); }
  bool ended_by_another() const { return processes_.ended_by_another(); }
  std::string end_reason() const { return processes_.end_reason(); }

 private:
  trainer::MpiProcesses processes_;
};

#else

namespace {

void check_connected(const LaunchedProcesses& /*launched*/, const Environment& /*environment*/) {}

}  // namespace

class RunProcesses::Started {
 public:
  Started(const LaunchedProcesses& launched, const PeerTimes& /*times*/,
          const CommandContext& /*context*/) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{}={}: this program was built without MPI, and each process would do "
                            "the whole work; start one process, with --devices for what the "
                            "machine has",
                            launched.variable, launched.count));
  }
  device::pjrt::Network network() const { return {}; }
  std::unique_ptr<trainer::Cluster> make_cluster(int /*devices*/,
                                                 const trainer::ClusterOptions& /*options*/) {
    return nullptr;
  }
  int process() const { return 0; }
  std::string host() const { return {}; }
  std::vector<std::string> hosts() const { return {}; }
  bool ended_by_another() const { return false; }
  std::string end_reason() const { return {}; }
};

#endif

/// What this process may use of its machine.
struct RunProcesses::Share {
  int cores = 1;
  bool is_bound = false;  ///< to fewer than its part of the machine's
};

void declare_heartbeat_timeout(CLI::App& app, std::int64_t& seconds) {
  // Processes report once per second: less would take a late report for a death.
  const auto is_long_enough = [](std::string& text) -> std::string {
    const bool is_short = text == "1" || text == "2";
    return is_short ? "'" + text + "': must be at least 3, or 0 for no limit" : "";
  };
  app.add_option("--heartbeat-timeout", seconds,
                 "Several processes: seconds without a sign of life from one, stopped or cut off, "
                 "after which the others end the run; 0: no limit")
      ->transform(whole_number(0, 86'400))
      ->transform(CLI::Validator(is_long_enough, ""))
      ->check(may_change());
}

RunProcesses::RunProcesses(CommandContext& context, const ProcessOptions& options)
    : heartbeat_timeout_(options.heartbeat_timeout), kind_(options.devices.kind) {
  start(options, context);
  int wanted = options.devices.count();
  if (!options.devices.is_cores()) {
    start_plugin(options, context);
    wanted = static_cast<int>(devices().size());
  }
  join(wanted, options);
  Share share;
  guard(context, [&] {
    share = compare(wanted, context);
    connect(options);
  });
  if (!devices_) devices_ = start_devices(options.devices, {}, {.num_cores = share.cores}, context);
  cores_ = share.cores;
  if (!is_first()) context.log = {};
  if (!devices_->assignment.empty())
    context.log.info(
        fmt::format("the plugin connects the devices of {}",
                    counted(static_cast<std::uint64_t>(topology().processes), "process")));
  if (is_spread())
    context.log = Log::to_function(
        [log = context.log, host = started_->host()](LogLevel level, const std::string& line) {
          log.write(level, host + " | " + line);
        });
  if (!share.is_bound) return;
  context.log.warn(fmt::format(
      "the launcher has bound process 0 to {}, of {} of this machine's for {} on it: mpirun "
      "--bind-to none, or srun --cpu-bind=none, gives it its share",
      counted(static_cast<std::uint64_t>(share.cores), "core"), std::thread::hardware_concurrency(),
      counted(static_cast<std::uint64_t>(topology().node_processes), "process")));
}

void RunProcesses::start(const ProcessOptions& options, CommandContext& context) {
  const Environment environment = process_environment();
  const auto launched = launched_processes(environment);
  has_launcher_ = launched.has_value();
  if (launched && launched->count > 1) {
    context.says_failure = launched->process == 0;  // an error here is the same on all processes
    check_connected(*launched, environment);
    started_ = std::make_unique<Started>(*launched, peer_times(options), context);
    context.says_failure = true;
    // How many devices there are is not known yet: plugins that are told of each other start as
    // one.
    join(1, options);
    const std::string own = options.devices.is_told_of_others(options.plugins) ? "told" : "alone";
    guard(context, [&] {
      const std::vector<std::string> all = gather(*cluster_, own);
      require_on_all(std::ranges::count(all, own) == std::ssize(all),
                     "--devices, --plugin-network: a plugin that connects processes is needed on "
                     "each of them");
    });
  } else {
    refuse_launcher(environment);
  }
}

void RunProcesses::require_on_all(bool is_so, const std::string& otherwise) {
  if (is_so) return;
  cluster_->fail_alike();
  throw Error(ErrorCode::kInvalidArgument, otherwise);
}

/// Where it fails on one process, none goes on: those of the others may be waiting for it.
void RunProcesses::start_plugin(const ProcessOptions& options, CommandContext& context) {
  CommandContext own{.out = context.out, .log = context.log, .stop = context.stop};
  device::pjrt::Network network;
  if (started_ && started_->process() > 0) own.log = {};
  if (started_ && options.devices.is_told_of_others(options.plugins)) network = started_->network();
  const auto start = [&] {
    devices_ = start_devices(options.devices, options.plugins, {}, own, network);
  };
  if (!started_) return start();
  try {
    guard(context, [&] { trainer::all_do(*cluster_, start); });
  } catch (const std::exception&) {
    if (network.store) network.store->stop();
    throw;
  }
}

void RunProcesses::join(int devices, const ProcessOptions& options) {
  cluster_ = started_ ? started_->make_cluster(devices, options.cluster)
                      : trainer::make_local_cluster(devices);
}

void RunProcesses::connect(const ProcessOptions& options) {
  if (is_alone() || devices_ == std::nullopt || devices_->client == nullptr) return;
  const device::pjrt::Client& client = *devices_->client;
  std::vector<std::string> own;
  for (const auto& device : client.devices()) own.push_back(std::to_string(device.id));
  std::vector<std::int64_t> all;
  for (const std::string& ids : gather(*cluster_, fmt::format("{}", fmt::join(own, " ")))) {
    std::istringstream numbers(ids);
    for (std::int64_t id = 0; numbers >> id;) all.push_back(id);
  }
  const bool has_all = std::ranges::all_of(all, [&](std::int64_t id) {
    return std::ranges::find(client.all_devices(), id) != client.all_devices().end();
  });
  // Those that nothing connects each count themselves as the first process.
  const std::string place = has_all ? std::to_string(client.process()) : "none";
  const std::vector<std::string> places = gather(*cluster_, place);
  const std::set<std::string> different(places.begin(), places.end());
  const bool connects = different.size() == places.size() && !different.contains("none");
  require_on_all(connects || options.plugins.network != "yes",
                 "--plugin-network yes: the plugin has not connected the processes' devices");
  if (connects && options.plugins.network != "no") devices_->assignment = std::move(all);
}

RunProcesses::~RunProcesses() = default;

bool RunProcesses::is_spread() const {
  if (!started_) return false;
  const auto& hosts = started_->hosts();
  return std::ranges::any_of(hosts, [&](const std::string& one) { return one != hosts.front(); });
}

std::string RunProcesses::name() const {
  return fmt::format("process {} on {}", topology().process, started_ ? started_->host() : "");
}

void RunProcesses::print_places(const CommandContext& context) {
  if (is_alone()) return;
  const int devices = topology().devices;
  const int threads = std::max(1, cores_ / devices);
  std::vector<ProcessPlace> places;
  for (const std::string& one : gather(*cluster_, std::to_string(threads)))
    places.push_back({.host = started_->hosts().at(places.size()), .threads = std::stoi(one)});
  const std::string table = process_table(places, devices);
  std::istringstream lines(table);
  for (std::string line; std::getline(lines, line);) context.log.info(line);
  if (is_first()) advise(context);
}

// Where mpirun notices a lost host later than the processes do, it cannot end the run: what it
// sends there is repeated for a quarter of an hour, and it waits for the answer.
void RunProcesses::advise(const CommandContext& context) const {
  const Environment environment = process_environment();
  if (!is_spread() || !is_of_mpirun(environment) || heartbeat_timeout_ == 0) return;
  const double lost = mpirun_lost_host_seconds(environment);
  if (lost < static_cast<double>(heartbeat_timeout_)) return;
  context.log.warn(
      fmt::format("mpirun takes {:g} s to notice that a host is lost (oob_tcp_keepalive_time + "
                  "_intvl x _probes), "
                  "--heartbeat-timeout is {}: it should be the longer one (docs/cluster.md)",
                  lost, heartbeat_timeout_));
}

/// The devices may have other numbers on each machine, but are as many, and of one kind.
std::vector<trainer::Setting> RunProcesses::settings(int devices,
                                                     const CommandContext& context) const {
  if (is_alone() || context.options == nullptr) return {};
  auto all = settings_of(*context.options);
  std::erase_if(all, [](const trainer::Setting& one) { return one.name == "--devices"; });
  const std::string number = std::to_string(devices);
  all.push_back({.name = "--devices", .value = kind_.empty() ? number : kind_ + ":" + number});
  all.push_back({.name = "program", .value = build_digest()});
  return all;
}

// Processes of one machine that may use the same cores divide them; those that the launcher has
// bound to cores of their own have these.
RunProcesses::Share RunProcesses::compare(int devices, const CommandContext& context) {
  trainer::check_alike(*cluster_, settings(devices, context));
  check_own_devices();
  const auto mine =
      fmt::format("{} {}", started_ ? started_->host() : "", fmt::join(allowed_cores(), ","));
  const auto all = gather(*cluster_, mine);
  const auto sharers = static_cast<int>(std::ranges::count(all, mine));
  const int part =
      static_cast<int>(std::thread::hardware_concurrency()) / cluster_->topology().node_processes;
  const int cores = std::max(1, usable_cores() / sharers);
  const bool alone = sharers < cluster_->topology().node_processes || allowed_cores().size() == 1;
  return {.cores = cores, .is_bound = has_launcher_ && alone && cores < part};
}

/// XLA makes devices of the CPU for each process; of others two processes cannot have the same.
void RunProcesses::check_own_devices() {
  const bool is_shared = kind_.empty() || kind_ == "xla-cpu";
  std::string mine;
  for (std::size_t i = 0; !is_shared && i < devices().size(); ++i)
    mine +=
        fmt::format("{} {}:{}\n", started_ ? started_->host() : "", kind_, devices()[i].index());
  std::set<std::string> seen;
  for (const std::string& all : gather(*cluster_, mine)) {
    std::istringstream lines(all);
    for (std::string line; std::getline(lines, line);)
      require_on_all(
          seen.insert(line).second,
          fmt::format("{} is used by two processes: give each its own, as --devices {}:[0]", line,
                      kind_));
  }
}

/// The process that failed reports it, or who noticed that another one is lost: what it was doing
/// then ends as if it had been stopped.
void RunProcesses::failed_alone(CommandContext& context, const std::exception& error) {
  const std::string reason = started_->end_reason();
  cluster_->abort(
      fmt::format("process {} failed: {}", cluster_->topology().process, fault_text(error)));
  context.says_failure = !started_->ended_by_another();
  if (!reason.empty() && is_cancelled(error)) throw Error(ErrorCode::kCancelled, reason);
  const auto* known = dynamic_cast<const Error*>(&error);
  if (known != nullptr && is_spread())
    throw Error(known->code(), name() + ": " + known->message(), known->where());
}

void RunProcesses::failed(CommandContext& context, const std::exception& error) {
  if (!started_) return;
  try {
    tell_others(context, error);
  } catch (const std::exception& other) {
    context.report(other);
    throw;
  }
  context.report(error);
}

// What all of them throw, process 0 reports.
void RunProcesses::tell_others(CommandContext& context, const std::exception& error) {
  if (!cluster_->fails_alike()) return failed_alone(context, error);
  context.says_failure = is_first();
  if (!is_cancelled(error)) return;
  for (const std::string& signal : gather(*cluster_, std::to_string(context.signals->signal()))) {
    if (signal != "0") context.signals->tell(std::stoi(signal));
  }
}

}  // namespace millrace::tools
