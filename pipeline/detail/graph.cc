#include "pipeline/detail/graph.h"

#include <oneapi/tbb/flow_graph.h>
#include <oneapi/tbb/task_group.h>

#include <atomic>
#include <exception>
#include <new>
#include <optional>
#include <utility>
#include <variant>

#include "io/opener.h"
#include "pipeline/detail/arena.h"
#include "pipeline/detail/decode_stage.h"
#include "pipeline/detail/deliver_stage.h"
#include "pipeline/detail/io_threads.h"
#include "pipeline/detail/merge.h"
#include "pipeline/detail/resolve.h"
#include "pipeline/detail/sanitizer.h"
#include "pipeline/detail/stream_reader.h"
#include "pipeline/epoch_length.h"
#include "pipeline/slots.h"

namespace millrace::pipeline::detail {
namespace {

namespace flow = oneapi::tbb::flow;

using ReadNode = flow::async_node<ReadRequest, Event>;
using MergeNode = flow::function_node<Event>;
using OutsideNode = flow::function_node<Event>;
using DecodeNode = flow::function_node<std::shared_ptr<DecodeBlock>>;
using OrderNode = flow::sequencer_node<Output>;
using DeliverNode = flow::function_node<Output>;

/// Makes the graph wait for a read that is under way, until it ends or is dropped.
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

std::vector<StreamReader> make_readers(const GraphParts& parts, const Position& start,
                                       const std::stop_token& stop) {
  const StreamReader::Shared shared{parts.options, parts.source, parts.ledgers,
                                    parts.meters.restore, stop};
  const std::vector<int> numbers = owned_streams(parts.options);
  std::vector<StreamReader> readers;
  readers.reserve(numbers.size());
  for (std::size_t stream = 0; stream < numbers.size(); ++stream) {
    const auto from = start.streams.empty() ? Position::Stream{} : start.streams[stream];
    readers.emplace_back(stream, numbers[stream], start.epoch, from, shared);
  }
  return readers;
}

/// Which samples a block has.
void trace_read(const wds::SampleBlock& block, const ReadRequest& request, TraceSpan& span) {
  if (!span || block.samples.empty()) return;
  const wds::Sample& first = block.samples.front();
  if (first.url) span.arg("shard", io::printable_url(*first.url));
  span.arg("stream", request.stream);
  span.arg("first_key", first.key);
  span.arg("last_key", block.samples.back().key);
  span.arg("samples", block.samples.size());
  span.arg("bytes", block.num_bytes);
}

}  // namespace

struct Graph::State final : Merge::Sink {
  State(const GraphParts& parts, const Position& start);
  ~State() override;

  void read(const ReadRequest& request) override { put(*read_node, to_read, request); }
  void decode(const std::shared_ptr<DecodeBlock>& block) override {
    put(*decode_node, to_decode, block, Arena::Need::kParallel);
  }
  void deliver(const Output& output) override { put(*order_node, to_deliver, output); }
  void drop(std::size_t samples, std::size_t bytes) override {
    parts.meters.dropped += samples;
    parts.encoded.subtract(bytes);
  }

  void tell_merge(const Event& event) { put(*merge_node, to_merge, event); }
  /// The same from a thread that must not wait: who puts into a node that runs one task at a time
  /// waits there for whoever is in it, for ever if that one has had no memory. A node without such
  /// a limit is not waited for.
  void tell_merge_from_outside(const Event& event) { put(*outside_node, to_outside, event); }

  /// Sends a message into the graph, to be handled by run_body(). Threads: any.
  template <typename Node, typename Message>
  void put(Node& node, Handover& handover, const Message& message,
           Arena::Need need = Arena::Need::kSerial) {
    check();
    arena.add(need);
    handover.send();
    put_into(node, message);
  }

  /// `node` is one, or an async one's gateway.
  template <typename Node, typename Message>
  void put_into(Node& node, const Message& message) {
    const TbbCode tbb;
    try {
      node.try_put(message);
    } catch (...) {
      has_thrown = true;
      throw;
    }
  }

  // An exception out of a task of TBB's own, behind a body, cancels the tasks.
  bool is_broken() const { return has_thrown || tasks.is_group_execution_cancelled(); }
  void check() const {
    if (is_broken()) throw std::bad_alloc();
  }

  void make_nodes();
  void end_tasks();
  void leave_graph();
  void start_read(const ReadRequest& request, ReadNode::gateway_type& gateway);
  std::shared_ptr<BlockRead> read_block(const ReadRequest& request);
  void handle(const Event& event);
  void decode_block(const std::shared_ptr<DecodeBlock>& block);
  void fail(std::exception_ptr error);
  /// A node's body: an exception that no stage handles ends the pipeline at once. What threw is
  /// left as it was, so that no body's work begins after it.
  template <typename Work>
  void run_body(Handover& handover, const Work& work, Arena::Need need = Arena::Need::kSerial);

  GraphParts parts;
  std::stop_source stop;
  std::vector<StreamReader> readers;
  Merge merge;
  DecodeStage decode_stage;
  DeliverStage deliver_stage;
  Arena arena;
  IoThreads io_threads;
  std::atomic<bool> has_thrown{false};  // TBB, out of a node
  std::atomic<bool> has_failed{false};  // a body's work, or a read
  mutable oneapi::tbb::task_group_context tasks;
  Handover to_read;
  Handover to_outside;
  Handover to_merge;
  Handover to_decode;
  Handover to_deliver;
  std::unique_ptr<flow::graph> graph;
  std::unique_ptr<ReadNode> read_node;
  std::unique_ptr<OutsideNode> outside_node;
  std::unique_ptr<MergeNode> merge_node;
  std::unique_ptr<DecodeNode> decode_node;
  std::unique_ptr<OrderNode> order_node;
  std::unique_ptr<DeliverNode> deliver_node;
};

Graph::State::State(const GraphParts& all, const Position& start)
    : parts(all),
      readers(make_readers(parts, start, stop.get_token())),
      merge({.stream_numbers = owned_streams(parts.options),
             .split = parts.options.split,
             .num_samples = global_samples_per_epoch(parts.options).value_or(0),
             .own_samples = promised_samples(parts.options),
             .may_stop = parts.options.faults.on_fault == wds::OnFault::kStop,
             .seed = parts.options.shuffle.seed,
             .batch = parts.options.batch,
             .epochs = resolve_epochs(parts.options),
             .least_batches = least_batches(parts.options),
             .blocks_per_stream = static_cast<std::size_t>(parts.plan.first.read_ahead),
             .decode_bytes = parts.plan.decode_bytes,
             .permits = parts.plan.permits,
             .fingerprint = order_fingerprint(parts.options),
             .seed_processes = seed_processes(parts.options),
             .order = order_facts(parts.options),
             .mixer = &parts.mixer},
            start, parts.layout, parts.pool, *this),
      decode_stage(parts.decoders, parts.ragged, parts.layout, parts.meters, parts.encoded),
      deliver_stage(parts.options, start, parts.ledgers, parts.output, parts.meters,
                    {.return_permit = [this] { tell_merge(PermitReturned{}); },
                     .cut_epoch = [this](std::uint32_t epoch) { tell_merge(EpochCut{epoch}); },
                     .failed = [this] { stop.request_stop(); }}),
      arena(parts.plan.first.decode_threads, parts.plan.most.decode_threads),
      io_threads(parts.plan.first.readers) {
  const TbbCode tbb;
  try {
    arena.tbb().execute([&] {
      graph = std::make_unique<flow::graph>(tasks);
      make_nodes();
    });
  } catch (...) {
    end_tasks();
    leave_graph();
    throw;
  }
}

void Graph::State::end_tasks() {
  stop.request_stop();
  tasks.cancel_group_execution();
  decode_stage.stop();
  io_threads.stop();
  arena.stop();
}

// TBB counts a task before it has the memory to hand it out, and then waits for one that is
// nowhere, for ever. Such a graph stays, with its nodes: no thread is left that could enter it.
void Graph::State::leave_graph() {
  static_cast<void>(deliver_node.release());
  static_cast<void>(order_node.release());
  static_cast<void>(decode_node.release());
  static_cast<void>(merge_node.release());
  static_cast<void>(outside_node.release());
  static_cast<void>(read_node.release());
  static_cast<void>(graph.release());
}

// Reads end by their stop token, waiting tasks by cancellation, decode tasks after their current
// sample; only then may the nodes be destroyed.
Graph::State::~State() {
  const TbbCode tbb;
  end_tasks();
  try {
    graph->wait_for_all();
  } catch (...) {  // TBB's own, of a task that it has had no memory for just now
    leave_graph();
  }
  deliver_node.reset();
  order_node.reset();
  decode_node.reset();
  merge_node.reset();
  outside_node.reset();
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
  outside_node = std::make_unique<OutsideNode>(*graph, flow::unlimited, [this](const Event& event) {
    run_body(to_outside, [&] { tell_merge(event); });
    return flow::continue_msg();
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
  order_node =
      std::make_unique<OrderNode>(*graph, [](const Output& output) { return output.sequence; });
  deliver_node = std::make_unique<DeliverNode>(
      *graph, flow::serial,
      [this](const Output& output) {
        run_body(to_deliver, [&] { deliver_stage.deliver(output); });
      },
      kDeliverPriority);
  flow::make_edge(*read_node, *merge_node);
  flow::make_edge(*order_node, *deliver_node);
}

void Graph::State::fail(std::exception_ptr error) {
  has_failed.store(true, std::memory_order_relaxed);
  parts.output.fail(std::move(error));
  stop.request_stop();
}

template <typename Work>
void Graph::State::run_body(Handover& handover, const Work& work, Arena::Need need) {
  const NodeBody body;
  handover.receive();
  try {
    if (!has_failed.load(std::memory_order_relaxed)) work();
  } catch (...) {
    fail(std::current_exception());
  }
  handover.send();  // a serial node's next run sees what this one did
  arena.done(need);
}

void Graph::State::start_read(const ReadRequest& request, ReadNode::gateway_type& gateway) {
  auto hold = std::make_shared<const GatewayHold>(gateway);
  auto queued = std::make_shared<std::optional<Stopwatch<>>>(parts.meters.read_queue_ns);
  io_threads.submit([this, request, hold, queued] {
    queued->reset();
    try {
      const Event event(read_block(request));
      check();
      arena.add(Arena::Need::kSerial);  // the merge's
      to_merge.send();
      put_into(hold->gateway(), event);
    } catch (...) {
      fail(std::current_exception());
    }
  });
}

std::shared_ptr<BlockRead> Graph::State::read_block(const ReadRequest& request) {
  StageWork work(parts.meters.read, parts.meters.trace, "reader", "read");
  auto read = std::make_shared<BlockRead>(readers[request.stream].read(request));
  trace_read(read->block, request, work.span());
  parts.encoded.add(read->block.num_bytes);
  parts.meters.read.count(read->block.samples.size(), read->block.num_bytes);
  return read;
}

void Graph::State::handle(const Event& event) {
  const StageWork work(parts.meters.merge, parts.meters.trace, "pipeline", "merge");
  if (const auto* read = std::get_if<std::shared_ptr<BlockRead>>(&event))
    parts.meters.merge.count((*read)->block.samples.size(), 0);
  merge.handle(event);
}

void Graph::State::decode_block(const std::shared_ptr<DecodeBlock>& block) {
  const auto slots = static_cast<std::int64_t>(block->samples.size());
  decode_stage.decode(*block);
  tell_merge(BlockDecoded{block->num_bytes});
  const std::shared_ptr<OpenRound> round = std::move(block->round);
  if (round->release(slots)) deliver(round->output());
}

template <typename Message>
void Graph::tell(const Message& message) {
  try {
    state_->tell_merge_from_outside(message);
  } catch (...) {
    state_->fail(std::current_exception());
    throw;
  }
}

Graph::Graph(const GraphParts& parts, const Position& start)
    : state_(std::make_unique<State>(parts, start)) {
  try {
    tell(Started{});
  } catch (...) {  // the consumer is told by next(): a broken graph is not destroyed here
  }
}
Graph::~Graph() = default;

void Graph::return_permit() { tell(PermitReturned{}); }
void Graph::tune(const TuneSettings& settings) {
  state_->arena.set_threads(settings.decode_threads);
  state_->io_threads.set_count(settings.readers);
  tell(ReadAhead{static_cast<std::size_t>(settings.read_ahead)});
}
bool Graph::is_broken() const { return state_->is_broken(); }
void Graph::check() {
  if (is_broken()) state_->fail(std::make_exception_ptr(std::bad_alloc()));
}
void Graph::stop_reading() { state_->stop.request_stop(); }

}  // namespace millrace::pipeline::detail
