// millrace order: prints an epoch's keys in the order in which a run sees them.
#include <fmt/format.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <CLI/CLI.hpp>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "io/base/error.h"
#include "pipeline/epoch_length.h"
#include "tools/commands.h"
#include "tools/read_options.h"
#include "tools/stream_cursor.h"
#include "tools/task_arena.h"
#include "tools/values.h"
#include "wds/split.h"

namespace millrace::tools {
namespace {

struct NumberedStream {
  int number = 0;
  StreamCursor samples;
};

/// One process's streams, from which samples are taken in turn; ended ones are skipped.
struct ProcessStreams {
  int process = 0;
  std::vector<NumberedStream> streams = {};
  std::size_t turn = 0;
  std::uint64_t taken = 0;

  std::size_t num_open() const {
    return static_cast<std::size_t>(
        std::count_if(streams.begin(), streams.end(),
                      [](const NumberedStream& s) { return !s.samples.ended(); }));
  }
};

class OrderCommand final : public Command {
 public:
  std::string name() const override { return "order"; }
  std::string summary() const override { return "Prints the keys in the order a run sees them"; }
  std::string example() const override {
    return "  millrace order 'train-{000000..000019}.tar' --seed 7 --epoch 2 --shuffle 1000 "
           "--workers 4\n"
           "  millrace order train --processes 2 --process 1 --json --limit 10\n";
  }

  void declare(CLI::App& app) override {
    read_.declare(app);
    read_.declare_index(app);
    const auto positive = whole_number(1, 1 << 20);
    app.add_option("--seed", shuffle_.seed, "Seed of every shuffle")->transform(seed_number());
    app.add_option("--epoch", epoch_, "Epoch, from 0")
        ->transform(whole_number(0, std::numeric_limits<std::uint32_t>::max()));
    app.add_option("--processes", split_.topology.processes, "Processes that share an epoch")
        ->transform(positive);
    app.add_option("--process", process_,
                   "Print only this process's samples; default: all, by slot")
        ->transform(whole_number(0, 1 << 20));
    app.add_option("--workers", split_.workers, "Streams a process")->transform(positive);
    app.add_option("--streams", split_.streams,
                   "Streams over all processes, a multiple of their number; 0: processes x workers")
        ->transform(whole_number(0, 1 << 20));
    app.add_option("--shuffle", shuffle_.buffer_samples,
                   "Shuffle the shards, and samples in a buffer of N a stream; 0: neither")
        ->transform(whole_number(0));
    read_.declare_order(app);
    app.add_option("--limit", limit_, "Maximum lines to print; 0: all")->transform(whole_number(0));
    app.add_option("--threads", threads_, "Streams read at once; 0: one per core")
        ->transform(whole_number(0, 1024));
  }

  void check() override {
    wds::SplitOptions split = split_;
    split.topology.process = process_.value_or(0);
    static_cast<void>(wds::num_streams(split));
    read_.check();
    check_number();
  }

  void run(Context& context) override {
    read_.attach(context);
    const auto opener = read_.opener();
    wds::FaultLedger ledger(read_.policy(), context.log);
    std::vector<ProcessStreams> processes = open(find_spec(context), *opener, ledger, context.stop);
    TaskArena threads(threads_);
    std::uint64_t printed = 0;
    while (limit_ == 0 || printed < limit_) {
      const std::uint64_t before = printed;
      for (ProcessStreams& one : processes)
        if (limit_ == 0 || printed < limit_) printed += step(one, threads.tbb(), context) ? 1 : 0;
      if (printed == before) break;
    }
    if (printed == 0 && ledger.skipped() > 0)
      ledger.check_not_empty(fmt::format("epoch {}", epoch_));
  }

 private:
  void check_number() const {
    if (!read_.lists_shards(read_.specs())) return;
    const std::vector<std::string> shards = read_.shards();
    read_.check_number(shards, split_, read_.order());
  }

  /// The StreamSpec that a pipeline would use.
  wds::StreamSpec find_spec(const Context& context) const {
    const auto found = pipeline::with_counts({.shards = read_.shards(),
                                              .split = split_,
                                              .shuffle = shuffle(),
                                              .faults = read_.policy(),
                                              .indexed = read_.indexed(),
                                              .scan = read_.scan(),
                                              .scan_cache = ReadOptions::scan_cache(),
                                              .opener = read_.opener(),
                                              .stop = context.stop,
                                              .log = context.log});
    if (!found.counts) wds::check_enough_shards(found.shards.size(), split_);
    log_balance(num_indexes_of(found), context.log);
    return {.shards = std::make_shared<const std::vector<std::string>>(found.shards),
            .shuffle = found.shuffle,
            .num_streams = wds::num_streams(split_),
            .epoch = epoch_,
            .processes = split_.topology.processes,
            .indexed = found.indexed,
            .counts = found.counts,
            .scans = found.scans,
            .contents = found.contents};
  }

  std::vector<ProcessStreams> open(wds::StreamSpec spec, const io::Opener& opener,
                                   wds::FaultLedger& ledger, const std::stop_token& stop) const {
    std::vector<ProcessStreams> processes;
    const int first = process_.value_or(0);
    const int end = process_ ? first + 1 : split_.topology.processes;
    for (int process = first; process < end; ++process) {
      processes.push_back({.process = process});
      wds::SplitOptions split = split_;
      split.topology.process = process;
      for (const int stream : wds::streams_of_process(split)) {
        spec.stream = stream;
        processes.back().streams.push_back(
            {.number = stream,
             .samples = StreamCursor(wds::SampleStream(spec, opener, ledger, stop))});
      }
    }
    return processes;
  }

  wds::ShuffleOptions shuffle() const {
    wds::ShuffleOptions shuffle = shuffle_;
    shuffle.shards = shuffle.buffer_samples > 0;
    shuffle.order = read_.order();
    shuffle.open_shards = read_.open_shards();
    return shuffle;
  }

  /// Reads a block for every stream that has none left, in parallel.
  static void refill(ProcessStreams& process, tbb::task_arena& arena) {
    arena.execute([&] {
      tbb::parallel_for(std::size_t{0}, process.streams.size(), [&](std::size_t i) {
        StreamCursor& samples = process.streams[i].samples;
        if (samples.needs_block()) samples.refill();
      });
    });
  }

  /// Prints the process's next sample; false at its end.
  bool step(ProcessStreams& process, tbb::task_arena& arena, Context& context) const {
    while (true) {
      if (process.streams[process.turn].samples.needs_block()) refill(process, arena);
      if (process.num_open() == 0) return false;
      NumberedStream& stream = process.streams[process.turn];
      process.turn = (process.turn + 1) % process.streams.size();
      const wds::Sample* sample = stream.samples.next();
      if (sample == nullptr) continue;
      const std::uint64_t slot =
          process.taken++ * static_cast<std::uint64_t>(split_.topology.processes) +
          static_cast<std::uint64_t>(process.process);
      print(slot, stream.number, *sample, context);
      return true;
    }
  }

  static void print(std::uint64_t slot, int stream, const wds::Sample& sample, Context& context) {
    if (!context.json) {
      context.out.line(fmt::format("{:8} {:4} {}  {}", slot, stream, sample.key, *sample.url));
      return;
    }
    const nlohmann::ordered_json line = {
        {"slot", slot}, {"stream", stream}, {"url", *sample.url}, {"key", sample.key}};
    context.out.line(line.dump());
  }

  ReadOptions read_;
  wds::ShuffleOptions shuffle_;
  wds::SplitOptions split_;
  std::uint32_t epoch_ = 0;
  std::optional<int> process_;
  std::uint64_t limit_ = 0;
  int threads_ = 0;
};

}  // namespace

std::unique_ptr<Command> make_order_command() { return std::make_unique<OrderCommand>(); }

}  // namespace millrace::tools
