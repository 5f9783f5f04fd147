// millrace order: the keys of an epoch in the order in which a run sees them.
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

/// One rank's streams, from which samples are taken in turn; one that has ended is left out.
struct RankStreams {
  int rank = 0;
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
           "  millrace order train --world 2 --rank 1 --json --limit 10\n";
  }

  void declare(CLI::App& app) override {
    read_.declare(app);
    read_.declare_index(app);
    const auto positive = whole_number(1, 1 << 20);
    app.add_option("--seed", shuffle_.seed, "Keys every shuffle")->transform(seed_number());
    app.add_option("--epoch", epoch_, "Which epoch, from 0")
        ->transform(whole_number(0, std::numeric_limits<std::uint32_t>::max()));
    app.add_option("--world", split_.world, "Ranks that share an epoch")->transform(positive);
    app.add_option("--rank", rank_, "Print this rank's samples alone; else all, by slot")
        ->transform(whole_number(0, 1 << 20));
    app.add_option("--workers", split_.workers, "Streams a rank")->transform(positive);
    app.add_option("--streams", split_.streams,
                   "Streams over all ranks, a multiple of world; 0: world x workers")
        ->transform(whole_number(0, 1 << 20));
    app.add_option("--shuffle", shuffle_.buffer_samples,
                   "Shuffle the shards, and samples in a buffer of this many a stream; 0: neither")
        ->transform(whole_number(0));
    read_.declare_order(app);
    app.add_option("--limit", limit_, "Lines to print, at most; 0: all")
        ->transform(whole_number(0));
    app.add_option("--threads", threads_, "Streams read at once; 0: one a core")
        ->transform(whole_number(0, 1024));
  }

  void check() override {
    if (rank_ && *rank_ >= split_.world)
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("rank {} is outside of a world of {}", *rank_, split_.world));
    static_cast<void>(wds::num_streams(split_));
    read_.check();
    check_number();
  }

  void run(Context& context) override {
    read_.attach(context);
    const auto opener = read_.opener();
    wds::FaultLedger ledger(read_.policy(), context.log);
    std::vector<RankStreams> ranks = open(find_spec(context), *opener, ledger, context.stop);
    TaskArena threads(threads_);
    std::uint64_t printed = 0;
    while (limit_ == 0 || printed < limit_) {
      const std::uint64_t before = printed;
      for (RankStreams& rank : ranks)
        if (limit_ == 0 || printed < limit_) printed += step(rank, threads.tbb(), context) ? 1 : 0;
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

  /// What a pipeline would divide.
  wds::StreamSpec find_spec(const Context& context) const {
    const auto found = pipeline::with_counts({.shards = read_.shards(),
                                              .split = split_,
                                              .shuffle = shuffle(),
                                              .indexed = read_.indexed(),
                                              .opener = read_.opener(),
                                              .stop = context.stop});
    if (!found.counts) wds::check_enough_shards(found.shards.size(), split_);
    log_balance(found.counts ? found.counts->size() : 0, context.log);
    return {.shards = std::make_shared<const std::vector<std::string>>(found.shards),
            .shuffle = found.shuffle,
            .num_streams = wds::num_streams(split_),
            .epoch = epoch_,
            .world = split_.world,
            .indexed = found.indexed,
            .counts = found.counts};
  }

  std::vector<RankStreams> open(wds::StreamSpec spec, const io::Opener& opener,
                                wds::FaultLedger& ledger, const std::stop_token& stop) const {
    std::vector<RankStreams> ranks;
    for (int rank = rank_.value_or(0); rank < (rank_ ? *rank_ + 1 : split_.world); ++rank) {
      ranks.push_back({.rank = rank});
      wds::SplitOptions split = split_;
      split.rank = rank;
      for (const int stream : wds::streams_of_rank(split)) {
        spec.stream = stream;
        ranks.back().streams.push_back(
            {.number = stream,
             .samples = StreamCursor(wds::SampleStream(spec, opener, ledger, stop))});
      }
    }
    return ranks;
  }

  wds::ShuffleOptions shuffle() const {
    wds::ShuffleOptions shuffle = shuffle_;
    shuffle.shards = shuffle.buffer_samples > 0;
    shuffle.order = read_.order();
    return shuffle;
  }

  /// Reads a block for every stream that has none left, several at once.
  static void refill(RankStreams& rank, tbb::task_arena& arena) {
    arena.execute([&] {
      tbb::parallel_for(std::size_t{0}, rank.streams.size(), [&](std::size_t i) {
        StreamCursor& samples = rank.streams[i].samples;
        if (samples.needs_block()) samples.refill();
      });
    });
  }

  /// Prints the rank's next sample; false at its end.
  bool step(RankStreams& rank, tbb::task_arena& arena, Context& context) const {
    while (true) {
      if (rank.streams[rank.turn].samples.needs_block()) refill(rank, arena);
      if (rank.num_open() == 0) return false;
      NumberedStream& stream = rank.streams[rank.turn];
      rank.turn = (rank.turn + 1) % rank.streams.size();
      const wds::StreamSample* one = stream.samples.next();
      if (one == nullptr) continue;
      const std::uint64_t slot = rank.taken++ * static_cast<std::uint64_t>(split_.world) +
                                 static_cast<std::uint64_t>(rank.rank);
      print(slot, stream.number, one->sample, context);
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
  std::optional<int> rank_;
  std::uint64_t limit_ = 0;
  int threads_ = 0;
};

}  // namespace

std::unique_ptr<Command> make_order_command() { return std::make_unique<OrderCommand>(); }

}  // namespace millrace::tools
