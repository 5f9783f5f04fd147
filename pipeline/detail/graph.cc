#include "pipeline/detail/graph.h"

#include <oneapi/tbb/flow_graph.h>

#include <utility>
#include <variant>

#include "pipeline/detail/arena.h"
#include "pipeline/detail/decode_stage.h"
#include "pipeline/detail/deliver_stage.h"
#include "pipeline/detail/io_threads.h"
#include "pipeline/detail/lane_reader.h"
#include "pipeline/detail/merge.h"
#include "pipeline/detail/resolve.h"
#include "pipeline/detail/sanitizer.h"

namespace millrace::pipeline::detail {
namespace {

namespace flow = oneapi::tbb::flow;

struct Decoded {
  std::size_t bytes;
};
struct Permit {};
struct Cut {
  std::uint32_t epoch;
};
struct Start {
  std::shared_ptr<const Position> position;
};
/// What the merge hears of.
using Event = std::variant<std::shared_ptr<ReadResult>, Decoded, Permit, Cut, Start>;

using ReadNode = flow::async_node<ReadRequest, Event>;
using MergeNode = flow::function_node<Event>;
using DecodeNode = flow::function_node<std::shared_ptr<DecodeBlock>>;
using OrderNode = flow::sequencer_node<Finished>;
using DeliverNode = flow::function_node<Finished>;

/// Keeps the graph waiting for a read that is under way, or was dropped before it began.
class GatewayHold {
 public:
  explicit GatewayHold(ReadNode::gateway_type& gateway) : gateway_(gateway) {
    gateway_.reserve_wait();
  }
  ~GatewayHold() { gateway_.release_wait(); }
  GatewayHold(const GatewayHold&) = delete;
  GatewayHold& operator=(const GatewayHold&) = delete;
  ReadNode::gateway_type& gateway() const { return gateway_; }

 private:
  ReadNode::gateway_type& gateway_;
};

std::vector<LaneReader> make_readers(const GraphParts& parts, const Position& start,
                                     const std::stop_token& stop) {
  const LaneReader::Shared shared{parts.options, parts.source, parts.ledgers, stop};
  const std::vector<int> streams = owned_streams(parts.options);
  std::vector<LaneReader> readers;
  readers.reserve(streams.size());
  for (std::size_t lane = 0; lane < streams.size(); ++lane) {
    const auto from = start.streams.empty() ? Position::Stream{} : start.streams[lane];
    readers.emplace_back(lane, streams[lane], start.epoch, from, shared);
  }
  return readers;
}

}  // namespace

struct Graph::State final : Merge::Sink {
  struct Hear;
  State(const GraphParts& parts, const Position& start);
  ~State() override;

  void read(const ReadRequest& request) override { put(*read_node, to_read, request); }
  void decode(std::shared_ptr<DecodeBlock> block) override {
    put(*decode_node, to_decode, std::move(block), Arena::Need::kParallel);
  }
  void finish(Finished finished) override { put(*order_node, to_deliver, std::move(finished)); }
  void dropped(std::size_t samples, std::size_t bytes) override {
    parts.meters.dropped += samples;
    parts.encoded.subtract(bytes);
  }

  void tell_merge(Event event) { put(*merge_node, to_merge, std::move(event)); }

  /// Sends a message into the graph, where run_body() will take it up. Threads: any.
  template <typename Node, typename Message>
  void put(Node& node, Handover& handover, const Message& message,
           Arena::Need need = Arena::Need::kSerial) {
    arena.add(need);
    handover.send();
    const TbbCode tbb;
    node.try_put(message);
  }

  void make_nodes();
  void start_read(const ReadRequest& request, ReadNode::gateway_type& gateway);
  std::shared_ptr<ReadResult> read_block(const ReadRequest& request);
  void handle(const Event& event);
  void decode_block(const std::shared_ptr<DecodeBlock>& block);
  /// A node's body: what no stage expects ends the pipeline at once.
  template <typename Work>
  void run_body(Handover& handover, const Work& work, Arena::Need need = Arena::Need::kSerial);

  GraphParts parts;
  std::stop_source stop;
  std::vector<LaneReader> readers;
  Merge merge;
  DecodeStage decode_stage;
  DeliverStage deliver_stage;
  Arena arena;
  IoThreads io_threads;
  Handover to_read;
  Handover to_merge;
  Handover to_decode;
  Handover to_deliver;
  std::unique_ptr<flow::graph> graph;
  std::unique_ptr<ReadNode> read_node;
  std::unique_ptr<MergeNode> merge_node;
  std::unique_ptr<DecodeNode> decode_node;
  std::unique_ptr<OrderNode> order_node;
  std::unique_ptr<DeliverNode> deliver_node;
};

/// Tells the merge of an event.
struct Graph::State::Hear {
  State& state;

  void operator()(const std::shared_ptr<ReadResult>& result) const {
    state.parts.meters.merge.count(result->block.samples.size(), 0);
    state.merge.on_read(std::move(*result));
  }
  void operator()(const Decoded& decoded) const { state.merge.on_decoded(decoded.bytes); }
  void operator()(const Permit&) const { state.merge.on_permit(); }
  void operator()(const Cut& cut) const { state.merge.on_cut(cut.epoch); }
  void operator()(const Start& start) const { state.merge.start(*start.position); }
};

Graph::State::State(const GraphParts& all, const Position& start)
    : parts(all),
      readers(make_readers(parts, start, stop.get_token())),
      merge({.streams = owned_streams(parts.options),
             .batch = parts.options.batch,
             .epochs = parts.options.epochs,
             .blocks_per_lane = parts.plan.blocks_per_lane,
             .decode_bytes = parts.plan.decode_bytes,
             .permits = parts.plan.permits,
             .fingerprint = order_fingerprint(parts.options)},
            parts.layout, parts.pool, *this),
      decode_stage(parts.layout, parts.options.shuffle.seed, parts.meters, parts.encoded),
      deliver_stage(parts.options, parts.ledgers, parts.output, parts.meters,
                    {.dropped = [this] { tell_merge(Permit{}); },
                     .cut = [this](std::uint32_t epoch) { tell_merge(Cut{epoch}); },
                     .failed = [this] { stop.request_stop(); }}),
      arena(parts.options.resources.threads),
      io_threads(parts.options.resources.io_threads) {
  {
    const TbbCode tbb;
    arena.tbb().execute([&] {
      graph = std::make_unique<flow::graph>();
      make_nodes();
    });
  }
  tell_merge(Start{std::make_shared<const Position>(start)});
}

// Reads end by their stop token, waiting tasks by cancellation, decode tasks after the sample they
// are at; only then may the nodes go.
Graph::State::~State() {
  stop.request_stop();
  const TbbCode tbb;
  graph->cancel();
  decode_stage.stop();
  io_threads.stop();
  arena.stop();
  graph->wait_for_all();
  deliver_node.reset();
  order_node.reset();
  decode_node.reset();
  merge_node.reset();
  read_node.reset();
  graph.reset();
}

void Graph::State::make_nodes() {
  constexpr flow::node_priority_t kMergePriority = 1;
  constexpr flow::node_priority_t kDeliverPriority = 2;
  read_node = std::make_unique<ReadNode>(
      *graph, flow::unlimited, [this](const ReadRequest& request, ReadNode::gateway_type& gateway) {
        run_body(to_read, [&] { start_read(request, gateway); });
      });
  merge_node = std::make_unique<MergeNode>(
      *graph, flow::serial,
      [this](const Event& event) { run_body(to_merge, [&] { handle(event); }); }, kMergePriority);
  decode_node = std::make_unique<DecodeNode>(
      *graph, flow::unlimited, [this](const std::shared_ptr<DecodeBlock>& block) {
        run_body(
            to_decode, [&] { decode_block(block); }, Arena::Need::kParallel);
        return flow::continue_msg();
      });
  order_node = std::make_unique<OrderNode>(
      *graph, [](const Finished& finished) { return finished.sequence; });
  deliver_node = std::make_unique<DeliverNode>(
      *graph, flow::serial,
      [this](const Finished& finished) {
        run_body(to_deliver, [&] { deliver_stage.deliver(finished); });
      },
      kDeliverPriority);
  flow::make_edge(*read_node, *merge_node);
  flow::make_edge(*order_node, *deliver_node);
}

template <typename Work>
void Graph::State::run_body(Handover& handover, const Work& work, Arena::Need need) {
  const NodeBody body;
  handover.receive();
  try {
    work();
  } catch (...) {
    parts.output.fail(std::current_exception());
    stop.request_stop();
  }
  handover.send();  // a serial node's next run sees what this one did
  arena.done(need);
}

void Graph::State::start_read(const ReadRequest& request, ReadNode::gateway_type& gateway) {
  auto hold = std::make_shared<const GatewayHold>(gateway);
  io_threads.submit([this, request, hold] {
    const Event event(read_block(request));
    arena.add(Arena::Need::kSerial);  // the merge's
    to_merge.send();
    const TbbCode tbb;
    hold->gateway().try_put(event);
  });
}

std::shared_ptr<ReadResult> Graph::State::read_block(const ReadRequest& request) {
  const Stopwatch busy(parts.meters.read.busy_ns);
  auto result = std::make_shared<ReadResult>(readers[request.lane].read(request));
  parts.encoded.add(result->block.num_bytes);
  parts.meters.read.count(result->block.samples.size(), result->block.num_bytes);
  return result;
}

void Graph::State::handle(const Event& event) {
  const Stopwatch busy(parts.meters.merge.busy_ns);
  std::visit(Hear{*this}, event);
}

void Graph::State::decode_block(const std::shared_ptr<DecodeBlock>& block) {
  const auto slots = static_cast<std::int64_t>(block->samples.size());
  decode_stage.decode(*block);
  tell_merge(Decoded{block->num_bytes});
  const std::shared_ptr<OpenBatch> batch = std::move(block->batch);
  if (batch->done(slots)) finish(batch->complete(batch));
}

Graph::Graph(const GraphParts& parts, const Position& start)
    : state_(std::make_unique<State>(parts, start)) {}
Graph::~Graph() = default;

void Graph::batch_taken() { state_->tell_merge(Permit{}); }
void Graph::stop_reading() { state_->stop.request_stop(); }

}  // namespace millrace::pipeline::detail
