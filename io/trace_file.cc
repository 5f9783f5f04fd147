#include "io/trace_file.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "io/base/host.h"

namespace millrace::io {
namespace {

using Json = nlohmann::ordered_json;
using Nanoseconds = std::chrono::nanoseconds;

constexpr std::size_t kChunkBytes = std::size_t{1} << 20;

/// Text from outside may hold anything.
std::string json_text(std::string_view text) {
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// Microseconds, with the nanoseconds behind the point.
std::string micros(Nanoseconds time) {
  return fmt::format("{}.{:03}", time.count() / 1000, time.count() % 1000);
}

class TraceText {
 public:
  TraceText(const Trace& trace, const TraceProcess& process, ByteSink& sink)
      : trace_(trace), process_(process), sink_(sink) {}

  void write() {
    text_ = head();
    line(fmt::format(R"({{"name":"process_name","ph":"M","pid":{},"args":{{"name":{}}}}})",
                     process_.process, json_text(process_text())));
    for (const auto& [thread, role] : trace_.roles)
      line(
          fmt::format(R"({{"name":"thread_name","ph":"M","pid":{},"tid":{},"args":{{"name":{}}}}})",
                      process_.process, thread, json_text(role)));
    for (const TraceEvent& event : trace_.events) line(text_of(event));
    text_ += "\n]}\n";
    flush();
    sink_.finish();
  }

 private:
  std::string head() const {
    Json other{{"host", host_name()},
               {"process", process_.process},
               {"processes", process_.processes},
               {"start_ns", Nanoseconds(trace_.wall_start.time_since_epoch()).count()},
               {"left_out", trace_.left_out}};
    if (!trace_.meeting.empty()) {
      other["meeting"] = trace_.meeting;
      other["met_ns"] = Nanoseconds(trace_.met - trace_.start).count();
    }
    return fmt::format("{{\"displayTimeUnit\":\"ms\",\"otherData\":{},\"traceEvents\":[",
                       other.dump(-1, ' ', false, Json::error_handler_t::replace));
  }

  std::string process_text() const {
    return process_.processes == 1 ? "millrace"
                                   : fmt::format("millrace, process {} of {} on {}",
                                                 process_.process, process_.processes, host_name());
  }

  void line(const std::string& event) {
    text_ += has_events_ ? ",\n" : "\n";
    text_ += event;
    has_events_ = true;
    if (text_.size() > kChunkBytes) flush();
  }

  void flush() {
    sink_.write(std::as_bytes(std::span(text_)));
    text_.clear();
  }

  std::string text_of(const TraceEvent& event) const {
    const std::string begin = micros(event.begin - trace_.start);
    if (event.is_counter)
      return fmt::format(R"({{"name":{},"ph":"C","pid":{},"ts":{},"args":{}}})",
                         json_text(event.name), process_.process, begin, args_of(event));
    return fmt::format(R"({{"name":{},"ph":"X","pid":{},"tid":{},"ts":{},"dur":{},"args":{}}})",
                       json_text(event.name), process_.process, event.thread, begin,
                       micros(event.end - event.begin), args_of(event));
  }

  static std::string args_of(const TraceEvent& event) {
    std::string text = "{";
    for (const TraceArg& arg : event.args) {
      if (arg.name == nullptr) break;
      text += fmt::format("{}{}:", text.size() > 1 ? "," : "", json_text(arg.name));
      std::visit(
          [&](const auto& value) {
            text += Json(value).dump(-1, ' ', false, Json::error_handler_t::replace);
          },
          arg.value);
    }
    return text + "}";
  }

  const Trace& trace_;
  const TraceProcess& process_;
  ByteSink& sink_;
  std::string text_;
  bool has_events_ = false;
};

}  // namespace

std::size_t write_trace(Tracer& tracer, const TraceProcess& process, ByteSink& sink) {
  const Trace trace = tracer.take();
  TraceText(trace, process, sink).write();
  return trace.left_out;
}

}  // namespace millrace::io
