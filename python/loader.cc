#include "python/loader.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "decode/decoded_cache.h"
#include "io/base/error.h"
#include "io/base/json.h"
#include "io/base/machine.h"
#include "io/base/threads.h"
#include "io/byte_sink.h"
#include "io/gzip_sink.h"
#include "io/trace_file.h"
#include "pipeline/epoch_length.h"
#include "python/process_guard.h"

namespace millrace::python {

namespace nb = nanobind;
using pipeline::Position;

namespace {

using namespace std::chrono_literals;

/// How long a signal waits at most.
constexpr auto kSlice = 100ms;
/// How long close() waits for a thread in next(), which ends at its next slice.
constexpr auto kMostToClose = 10s;
constexpr int kStateVersion = 1;

/// Throws: what a signal's handler raised: KeyboardInterrupt.
void look_at_signals() {
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

struct State {
  int streams = 0;
  Position position = {};
};

State parse_state(const std::string& text) {
  auto json = parse_json<nlohmann::json>(text, "loader state");
  const auto corrupt = [](const char* what) {
    return Error(ErrorCode::kCorrupt, std::string("loader state: ") + what);
  };
  if (!json.is_object() || !json.contains("version") || !json.contains("streams") ||
      !json.contains("position"))
    throw corrupt("it is not what state_dict() returned");
  if (json_integer<int>(json["version"], "loader state: version") != kStateVersion)
    throw corrupt("it was written by another version of millrace");
  // Where earlier versions saved them.
  if (json.contains("contents") && json["contents"].is_object() && json["position"].is_object())
    json["position"]["contents"] = json["contents"];
  return {.streams = json_integer<int>(json["streams"], "loader state: streams", 0),
          .position = Position::from_json(json["position"].dump())};
}

/// Whether faults may change how many batches a process takes that is alone: not where so many
/// samples are repeated that there are enough.
bool may_lose_batches(const pipeline::PipelineOptions& options) {
  if (options.faults.on_fault == wds::OnFault::kFail || options.epochs.batches > 0) return false;
  const bool is_filled = options.epochs.samples > 0 && pipeline::repeats_samples(options);
  return !is_filled || options.faults.on_fault == wds::OnFault::kStop;
}

std::future<void> on_a_thread(const std::function<void()>& work) {
  try {
    return std::async(std::launch::async, work);
  } catch (const std::system_error& none) {
    throw_no_thread("to prepare the loader", none.code());
  }
}

}  // namespace

/// One thread at a time.
class Loader::Turn {
 public:
  /// Throws: std::runtime_error if another thread has it for so long.
  explicit Turn(Loader& loader, std::chrono::milliseconds patience = 0ms) : loader_(loader) {
    const auto end = std::chrono::steady_clock::now() + patience;
    while (loader_.busy_.exchange(true)) {
      if (std::chrono::steady_clock::now() >= end)
        throw std::runtime_error("another thread is using this loader: it serves one at a time");
      const nb::gil_scoped_release release;
      std::this_thread::sleep_for(1ms);
    }
    loader_.user_ = std::this_thread::get_id();
  }
  ~Turn() {
    loader_.closes_itself_ = false;
    loader_.user_ = std::thread::id();
    loader_.busy_ = false;
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  Loader& loader_;
};

Loader::Loader(PipelineArguments options, BatchForm form, nb::object allocate)
    : options_(std::move(options)), form_(std::move(form)) {
  if (!allocate.is_none()) stock_.emplace(std::move(allocate));
  if (!options_.functions.empty())
    functions_ =
        std::make_shared<FunctionPool>(options_.functions, options_.function_timeout, lines_.log());
}

Loader::~Loader() { end(); }

std::uint64_t Loader::begin() {
  const Turn turn(*this);
  if (std::exchange(failed_, false)) end();
  behind_unclaimed_.reset();
  if (std::exchange(has_read_all_, false)) begun_ = false;
  if (std::exchange(begun_, false) && !is_over()) begin_again();
  return ++pass_;
}

/// Once may be a look at the first batch; a trainer that does so each time sees no others.
void Loader::begin_again() {
  const std::uint32_t left = epoch();
  stand_at(position().beginning_of(left));
  if (++times_left_ != 2) return;
  lines_.log().warn(fmt::format(
      "epoch {} is begun again, for the second time, with the batches that it had: to go "
      "on to the next one, call set_epoch({}) or read it to its end",
      left, left + 1));
}

std::optional<Loader::Handed> Loader::next(std::uint64_t pass, const Topology& topology) {
  const Turn turn(*this);
  if (pass != pass_)
    throw std::runtime_error(
        "this pass is over: another one was begun, or the loader was moved (set_epoch, "
        "load_state_dict)");
  if (unclaimed_ && topology == topology_) return unclaimed_->handed;
  behind_unclaimed_.reset();
  if (std::exchange(has_read_all_, false)) {
    begun_ = false;
    return {};
  }
  if (topology != topology_ && std::exchange(begun_, begun_ && !is_over()) && !begun_) return {};
  stand_as(topology);
  const bool was_started = pipeline_ != nullptr;
  start();
  if (stock_) stock_->fill();
  pipeline::Batch batch;
  if (!begun_ && is_over()) {  // the end of the epoch of an earlier pass,
    fetch(batch);
    if (!was_started) return {};  // or of a state, which was this epoch's until now
  }
  Position before = position();
  const bool more = fetch(batch);
  lines_.pass_on();
  if (stock_) stock_->drain();  // the batch before
  if (!more) {
    begun_ = false;
    return {};
  }
  nb::object buffer = stock_ ? stock_->hand_out(batch) : nb::none();
  unclaimed_ = {.handed = Handed(batch_arrays(std::move(batch), form_), std::move(buffer)),
                .before = std::move(before)};
  return unclaimed_->handed;
}

void Loader::claim(std::uint64_t pass) {
  if (pass != pass_) return;
  if (behind_unclaimed_) {
    position_ = std::move(behind_unclaimed_->position);
    has_read_all_ = behind_unclaimed_->is_last;
    behind_unclaimed_.reset();
  } else if (!unclaimed_) {
    return;
  }
  unclaimed_.reset();
  begun_ = true;
}

bool Loader::fetch(pipeline::Batch& batch) {
  wait();
  const nb::gil_scoped_release release;
  failed_ = true;  // a pipeline throws its fault again at every call
  const bool more = pipeline_->next(batch);
  failed_ = false;
  return more;
}

/// Throws: what ended its processes, whatever the policy for faults is.
void Loader::check_functions() {
  if (!functions_ || !functions_->has_failed()) return;
  failed_ = true;
  functions_->check();
}

/// Threads that wait for a function's process do not decode: there are so many more.
void Loader::attach_functions(pipeline::PipelineOptions& options) const {
  if (!functions_) return;
  const int processes = functions_->num_processes();
  require(processes > 0, "the processes of this loader's functions were not started");
  functions_->resume();
  functions_->attach(options.fields);
  const auto with_processes = [&](int threads) {
    return std::min(kMaxThreads, threads + processes);
  };
  int& threads = options.resources.threads;
  threads = with_processes(threads == 0 ? usable_cores() : threads);
  int& most = options.resources.autotune.most_threads;
  if (most > 0) most = with_processes(most);
}

/// Until next() need not wait.
void Loader::wait() {
  bool ready = false;
  while (!ready) {
    {
      const nb::gil_scoped_release release;
      ready = pipeline_->wait_for(kSlice);
    }
    lines_.pass_on();
    // After `ready`: a batch that lacks what they would have made is not taken, so that it is not
    // lost from the position.
    check_functions();
    look_at_signals();
    if (is_closing()) {
      end();
      throw std::runtime_error("the loader was closed while this waited for its next batch");
    }
  }
}

void Loader::run(const std::function<void()>& work) {
  std::future<void> done = on_a_thread(work);
  const auto wait_for = [&done](std::chrono::milliseconds timeout) {
    const nb::gil_scoped_release release;
    return done.wait_for(timeout) == std::future_status::ready;
  };
  try {
    while (!wait_for(kSlice)) {
      lines_.pass_on();
      look_at_signals();
      if (is_closing())
        throw std::runtime_error("the loader was closed while this waited for it to start");
    }
  } catch (...) {
    stop_.request_stop();
    const nb::gil_scoped_release release;
    done.wait();
    stop_ = {};
    prepared_.reset();  // its opener was stopped
    throw;
  }
  done.get();
}

void Loader::stand_as(const Topology& topology) {
  if (topology == topology_) return;
  if (begun_)
    throw std::runtime_error(fmt::format(
        "this pass was begun as rank {} of {}, and this process is rank {} of {} now: its ranks "
        "would read the same samples, or not all. Begin another loop over the loader",
        topology_.process, topology_.processes, topology.process, topology.processes));
  end();
  behind_unclaimed_.reset();
  has_read_all_ = false;
  if (position_.streams.empty()) {  // as ranks have it that began with this topology
    position_ = loaded_.beginning_of(position_.epoch);
    saved_streams_ = loaded_streams_;
  }
  topology_ = topology;
}

void Loader::prepare() {
  ProcessGuard::enter();
  if (prepared_) return;
  std::optional<pipeline::PipelineOptions> prepared;
  run([&] { prepared = python::prepare(options_, topology_, stop_.get_token(), lines_.log()); });
  prepared_ = std::move(prepared);
  lines_.pass_on();
}

pipeline::PipelineOptions Loader::options_as(const Topology& topology) const {
  pipeline::PipelineOptions options = *prepared_;
  set_topology(options, options_, topology);
  if (options_.streams == 0 && saved_streams_ % topology.processes == 0)
    options.split.streams = saved_streams_;
  return options;
}

void Loader::start() {
  if (pipeline_) return ProcessGuard::enter();
  prepare();
  check_length();
  pipeline::PipelineOptions options = options_as(topology_);
  attach_functions(options);
  options.resume = std::make_shared<const Position>(position_);
  if (!decoded_ && options_.decoded_bytes > 0)
    decoded_ = std::make_shared<decode::DecodedCache>(decode::DecodedCacheOptions{
        .bytes = options_.decoded_bytes, .folder = options_.decoded_folder, .log = lines_.log()});
  options.resources.decoded = decoded_;
  options.trace = tracer_.get();
  if (stock_ && stock_->open(pipeline::batch_buffers(options)))
    options.resources.allocate = stock_->taker();
  std::shared_ptr<pipeline::Pipeline> started;
  run([&] { started = std::make_shared<pipeline::Pipeline>(std::move(options)); });
  batches_ = count_batches(topology_);
  pipeline_ = std::move(started);
  saved_streams_ = wds::num_streams(pipeline_->options().split);
}

/// Ranks that do not know how long the others' epochs are would wait for them at the end.
void Loader::check_length() const {
  if (topology_.processes == 1 || pipeline::steps_per_epoch(options_as(topology_))) return;
  throw Error(ErrorCode::kInvalidArgument,
              "the ranks' epochs may differ in length, because the shards' samples are not "
              "counted: index the shards, leave scan on, or set Epochs(batches=...)");
}

void Loader::stand_at(Position position) {
  if (pipeline_ && pipeline_->position().streams.empty() &&
      pipeline_->position().epoch == position.epoch && position.streams.empty())
    return;
  end();
  position_ = std::move(position);
}

bool Loader::is_over() const {
  if (unclaimed_ || !pipeline_ || !batches_) return false;
  const std::int64_t size = options_.pipeline().batch.size;
  return (pipeline_->position().slots + size - 1) / size >= *batches_;
}

Position Loader::position() const {
  if (unclaimed_) return unclaimed_->before;
  if (!pipeline_) return position_;
  Position stands = pipeline_->position();
  return is_over() ? stands.beginning_of(stands.epoch + 1) : stands;
}

std::string Loader::state() {
  const int streams = saved_streams_;
  const auto asked = is_over() ? nullptr : pipeline_;  // close() may come meanwhile
  const bool is_unclaimed = unclaimed_.has_value();
  Position stands = position();
  const nb::gil_scoped_release release;
  if (asked) {
    Position to_save = asked->position_to_save();
    if (is_unclaimed)
      stands.contents = std::move(to_save.contents);
    else
      stands = std::move(to_save);
  }
  return fmt::format(R"({{"version":{},"streams":{},"position":{}}})", kStateVersion, streams,
                     stands.to_json());
}

void Loader::load(const std::vector<std::string>& states) {
  const Turn turn(*this);
  std::vector<Position> parts;
  int streams = 0;
  for (const std::string& text : states) {
    State state = parse_state(text);
    require(
        parts.empty() || state.streams == streams,
        "the ranks' states are of loaders with different streams, or one of them had not begun");
    streams = state.streams;
    parts.push_back(std::move(state.position));
  }
  require(!parts.empty(), "no state is given");
  Position whole = parts.size() == 1 ? parts.front() : Position::joined(parts);
  end();
  behind_unclaimed_.reset();
  has_read_all_ = false;
  position_ = loaded_ = std::move(whole);
  saved_streams_ = loaded_streams_ = streams;
  begun_ = false;
  ++pass_;
}

std::uint32_t Loader::epoch() const { return position().epoch; }

void Loader::set_epoch(std::uint32_t epoch) {
  const Turn turn(*this);
  require(epoch <= pipeline::kMaxEpoch,
          fmt::format("epoch {}: the last one is {}", epoch, pipeline::kMaxEpoch));
  if (epoch == position().epoch) return;
  stand_at(position().beginning_of(epoch));
  begun_ = false;
  ++pass_;
}

std::optional<std::int64_t> Loader::length(const Topology& topology) {
  const Turn turn(*this);
  prepare();
  return count_batches(topology);
}

std::optional<std::int64_t> Loader::masked_slots(const Topology& topology) {
  const Turn turn(*this);
  prepare();
  const pipeline::PipelineOptions options = options_as(topology);
  const auto steps = pipeline::steps_per_epoch(options);
  const auto samples = pipeline::global_samples_per_epoch(options);
  if (!steps || !samples) return {};
  return std::max<std::int64_t>(0, *steps * pipeline::global_batch_size(options) - *samples);
}

std::optional<std::int64_t> Loader::count_batches(const Topology& topology) const {
  if (topology.processes == 1 && may_lose_batches(options_.pipeline())) return {};
  return pipeline::batches_per_epoch(options_as(topology));
}

pipeline::Statistics Loader::statistics() const {
  if (!pipeline_) return last_statistics_;
  pipeline::Statistics statistics = pipeline_->statistics();
  if (functions_) functions_->add_to(statistics);
  return statistics;
}

std::shared_ptr<const wds::FaultLedger> Loader::ledger() const {
  if (!pipeline_ && last_ledger_) return last_ledger_;
  if (!pipeline_) return std::make_shared<const wds::FaultLedger>();
  return pipeline_->ledger();
}

void Loader::close() {
  if (ProcessGuard::is_forked_child()) return end();  // its threads are the parent's
  if (user_ ==
      std::this_thread::get_id()) {  // a signal's handler: the call that it came in does it
    closes_itself_ = true;
    return;
  }
  closing_ = true;
  std::optional<Turn> turn;
  try {
    turn.emplace(*this, kMostToClose);
  } catch (...) {
    closing_ = false;
    throw;
  }
  closing_ = false;
  end();
  if (stock_) stock_->close();
  prepared_.reset();
  lines_.pass_on();
}

void Loader::begin_trace(std::size_t most_events) {
  const Turn turn(*this);
  if (tracer_) throw std::runtime_error("a trace of this loader is being recorded already");
  end();
  tracer_ = std::make_unique<Tracer>(TraceOptions{.max_events = most_events});
}

void Loader::end_trace(const std::string& path) {
  const Turn turn(*this);
  if (!tracer_) throw std::runtime_error("no trace of this loader is being recorded");
  end();
  const auto tracer = std::exchange(tracer_, nullptr);
  std::size_t left_out = 0;
  {
    const nb::gil_scoped_release release;
    auto sink = io::open_file_sink(path, {.replace = io::Replace::kAtomically});
    if (io::has_gzip_name(path)) sink = io::gzip_sink(std::move(sink));
    left_out = io::write_trace(
        *tracer, {.process = topology_.process, .processes = topology_.processes}, *sink);
  }
  if (left_out > 0)
    lines_.log().warn(fmt::format("{}: {} events of the end are left out", path, left_out));
  lines_.pass_on();
}

/// Keeps where the pipeline stands.
void Loader::end() {
  if (!pipeline_) return;
  if (ProcessGuard::is_forked_child()) {
    static_cast<void>(new std::shared_ptr(std::move(pipeline_)));
    return;
  }
  const Position::Contents begun_at = position_.contents;
  const auto stands = [&] {
    Position now = position();
    if (!now.streams.empty()) now.contents = begun_at;
    return now;
  };
  position_ = stands();
  const bool was_unclaimed = std::exchange(unclaimed_, std::nullopt).has_value();
  if (was_unclaimed) behind_unclaimed_ = {.position = stands(), .is_last = is_over()};
  has_read_all_ = begun_ && !was_unclaimed && is_over();
  last_statistics_ = statistics();
  last_ledger_ = pipeline_->ledger();
  auto ending = std::exchange(pipeline_, nullptr);
  {
    const nb::gil_scoped_release release;
    if (functions_) functions_->pause();
    ending.reset();
  }
  if (stock_) stock_->drain();
}

}  // namespace millrace::python
