// millrace trace: the traces of a run's processes as one.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "decode/gunzip.h"
#include "io/base/error.h"
#include "io/base/json.h"
#include "io/gzip_sink.h"
#include "tools/commands.h"
#include "tools/help.h"
#include "tools/named_twice.h"
#include "tools/network_options.h"
#include "tools/output_place.h"
#include "tools/progress.h"
#include "tools/values.h"

namespace millrace::tools {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMaxTraceBytes = std::size_t{1} << 31;

/// A trace as `train --trace` writes it: a line before the events, one each, and one behind them.
class TraceLines {
 public:
  TraceLines(const io::Opener& opener, const std::string& path) : path_(path) {
    bytes_ = io::read_object(opener, path, kMaxTraceBytes);
    if (io::has_gzip_name(path))
      bytes_ = decode::gunzip(bytes_, {.max_unpacked_bytes = kMaxTraceBytes, .max_ratio = 1000});
    rest_ = bytes_.text();
    const auto first = next_line();
    if (!first || !first->ends_with('[')) refuse("it does not begin as a trace of millrace does");
    head_ = parse(std::string(*first) + "]}");
    if (!head_.contains("otherData") || !head_["otherData"].is_object()) refuse("no otherData");
  }

  const Json& about() const { return head_["otherData"]; }
  /// A number of what is said about the trace.
  std::int64_t number(const char* name) const {
    if (!about().contains(name)) refuse(std::string("otherData has no ") + name);
    return json_integer<std::int64_t>(about()[name], path_ + ": " + name);
  }
  std::string meeting() const {
    const auto found = about().find("meeting");
    return found != about().end() && found->is_string() ? found->get<std::string>() : "";
  }

  /// The next event; null at the end.
  Json next() {
    const auto line = next_line();
    if (!line) refuse("it ends before its last line");
    if (*line == "]}") return nullptr;
    Json event = parse(line->ends_with(',') ? line->substr(0, line->size() - 1) : *line);
    if (!event.is_object() || !event.contains("ph")) refuse("a line is not an event");
    return event;
  }

 private:
  std::optional<std::string_view> next_line() {
    const std::size_t end = rest_.find('\n');
    if (end == std::string_view::npos) return {};
    ++line_;
    const std::string_view line = rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
    return line;
  }

  Json parse(std::string_view line) const {
    return parse_json<Json>(line, fmt::format("{}, line {}", path_, line_));
  }

  [[noreturn]] void refuse(const std::string& why) const {
    throw Error(ErrorCode::kCorrupt, fmt::format("line {}: {}", line_, why), {.url = path_});
  }

  std::string path_;
  io::Bytes bytes_;
  std::string_view rest_;
  std::size_t line_ = 0;
  Json head_;
};

class TraceCommand final : public Command {
 public:
  std::string name() const override { return "trace"; }
  std::string summary() const override { return "Joins the traces of a run's processes: merge"; }
  std::string example() const override {
    return "  mpirun -np 2 millrace train 'train-{000000..000019}.tar' --trace t.json.gz\n"
           "  millrace trace merge t-0.json.gz t-1.json.gz -o all.json.gz\n";
  }
  void declare(CLI::App& app) override {
    app.add_option("ACTION", action_, "merge: one trace of several, on one time line")
        ->required()
        ->transform(one_of({"merge"}));
    app.add_option("FILE", files_, "Files that --trace wrote")
        ->required()
        ->type_name("FILE")
        ->transform(output_path());
    app.add_option("-o,--output", out_, "The file of all, packed if its name ends in .gz")
        ->required()
        ->type_name("FILE")
        ->transform(output_path());
    app.add_flag("--force", force_, "Replace the file if it exists");
  }
  void check() override {
    check_output_file(out_, force_ ? io::Replace::kAtomically : io::Replace::kNever);
    for (const std::string& file : files_)
      require(file != out_, "--output is one of the files to be merged");
    refuse_named_twice(files_);
  }

  void run(CommandContext& context) override {
    network_.attach(context);
    std::vector<TraceLines> traces;
    for (const std::string& file : files_) traces.emplace_back(*network_.opener(), file);
    auto sink = open_output_file(*network_.opener(), out_,
                                 force_ ? io::Replace::kAtomically : io::Replace::kNever);
    if (io::has_gzip_name(out_)) sink = io::gzip_sink(std::move(sink));
    const std::size_t events = merge(traces, *sink, context);
    sink->finish();
    print(events, context);
  }

 private:
  /// Traces of processes that met are laid over each other at that moment, others by their clocks.
  std::vector<std::int64_t> shifts(const std::vector<TraceLines>& traces,
                                   const CommandContext& context) const {
    bool have_met = true;
    for (const TraceLines& trace : traces)
      have_met =
          have_met && !trace.meeting().empty() && trace.meeting() == traces.front().meeting();
    if (!have_met && traces.size() > 1)
      context.log.warn("these are not of processes that met: aligned by their machines' clocks");
    std::vector<std::int64_t> shifts;
    for (const TraceLines& trace : traces)
      shifts.push_back(have_met ? traces.front().number("met_ns") - trace.number("met_ns")
                                : trace.number("start_ns") - traces.front().number("start_ns"));
    // No event lies before the beginning.
    const std::int64_t first = std::ranges::min(shifts);
    for (std::int64_t& shift : shifts) shift -= first;
    return shifts;
  }

  /// `micros`, `shift` nanoseconds later, to the nanosecond.
  static double shifted(double micros, std::int64_t shift) {
    return 1e-3 * static_cast<double>(std::llround(1e3 * micros) + shift);
  }

  /// Files of one process number, of several runs, stay apart.
  static std::int64_t process_of(const std::vector<TraceLines>& traces, std::size_t index) {
    std::set<std::int64_t> seen;
    for (const TraceLines& trace : traces)
      if (!seen.insert(trace.number("process")).second) return static_cast<std::int64_t>(index);
    return traces[index].number("process");
  }

  std::size_t merge(std::vector<TraceLines>& traces, io::ByteSink& sink,
                    const CommandContext& context) {
    const std::vector<std::int64_t> shift_of = shifts(traces, context);
    Json others = Json::array();
    for (const TraceLines& trace : traces) others.push_back(trace.about());
    std::string text = Json{{"displayTimeUnit", "ms"}, {"otherData", {{"merged", others}}}}.dump();
    text.back() = ',';
    text += "\"traceEvents\":[";
    std::size_t events = 0;
    Progress progress(context.terminal, "traces", traces.size());
    for (std::size_t i = 0; i < traces.size(); ++i) {
      progress.at(i);
      const std::int64_t process = process_of(traces, i);
      for (Json event = traces[i].next(); !event.is_null(); event = traces[i].next()) {
        event["pid"] = process;
        if (event.contains("ts") && event["ts"].is_number())
          event["ts"] = shifted(event["ts"].get<double>(), shift_of[i]);
        text += (events++ == 0 ? "\n" : ",\n") + event.dump();
        if (text.size() < kChunkBytes) continue;
        write(text, sink);
      }
    }
    text += "\n]}\n";
    write(text, sink);
    return events;
  }

  static void write(std::string& text, io::ByteSink& sink) {
    sink.write(std::as_bytes(std::span(text)));
    text.clear();
  }

  void print(std::size_t events, CommandContext& context) const {
    if (context.json) {
      context.out.line(Json{{"traces", files_.size()}, {"events", events}, {"out", out_}}.dump());
      return;
    }
    context.out.line(fmt::format("{}: {} events of {} traces", out_, events, files_.size()));
  }

  static constexpr std::size_t kChunkBytes = std::size_t{1} << 20;

  NetworkOptions network_;
  std::string action_;
  std::vector<std::string> files_;
  std::string out_;
  bool force_ = false;
};

}  // namespace

std::unique_ptr<Command> make_trace_command() { return std::make_unique<TraceCommand>(); }

}  // namespace millrace::tools
