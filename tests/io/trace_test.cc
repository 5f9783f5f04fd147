#include "io/base/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "io/gzip_sink.h"
#include "io/trace_file.h"
#include "tests/support/temp_dir.h"

namespace millrace {
namespace {

using testing::TempDir;

/// Without counters, which come by the clock.
TraceOptions without_counters() { return {.interval = std::chrono::milliseconds(0)}; }

std::vector<std::string> names_in(const Trace& trace) {
  std::vector<std::string> names;
  for (const TraceEvent& event : trace.events) names.emplace_back(event.name);
  return names;
}

TEST(TraceSpan, WithoutATracerDoesNothing) {
  TraceSpan span(nullptr, "nobody", "nothing");
  span.arg("key", std::string_view("00000001"));
  EXPECT_FALSE(span);
}

TEST(TraceSpan, OfANestedCallEndsFirst) {
  Tracer tracer(without_counters());
  {
    const TraceSpan outer(&tracer, "pipeline", "outer");
    const TraceSpan inner(&tracer, "pipeline", "inner");
  }
  const Trace trace = tracer.take();
  ASSERT_THAT(names_in(trace), ::testing::ElementsAre("inner", "outer"));
  EXPECT_LE(trace.events[1].begin, trace.events[0].begin);
  EXPECT_LE(trace.events[0].end, trace.events[1].end);
  ASSERT_EQ(trace.roles.size(), 1U);
  EXPECT_STREQ(trace.roles.begin()->second, "pipeline");
}

TEST(Tracer, KeepsTheFirstEventsAndCountsTheRest) {
  Tracer tracer({.max_events = 3, .interval = std::chrono::milliseconds(0)});
  for (int i = 0; i < 10; ++i) const TraceSpan span(&tracer, "a", "b");
  const Trace trace = tracer.take();
  EXPECT_EQ(trace.events.size(), 3U);
  EXPECT_EQ(trace.left_out, 7U);
}

TEST(Tracer, RecordsTheStepsThatItWasAskedFor) {
  Tracer tracer({.first_step = 3, .last_step = 4, .interval = std::chrono::milliseconds(0)});
  for (std::int64_t step = 1; step <= 6; ++step) {
    tracer.at_step(step);
    const TraceSpan span(&tracer, "a", tracer.keep(std::to_string(step)));
  }
  EXPECT_THAT(names_in(tracer.take()), ::testing::ElementsAre("3", "4"));
}

// One device may be a step ahead of another: each records its own.
TEST(Tracer, RecordsTheSameStepsOfEachDevice) {
  Tracer tracer({.first_step = 3, .last_step = 4, .interval = std::chrono::milliseconds(0)});
  constexpr std::size_t kDevices = 2;
  const auto take_steps = [&](std::size_t device, std::int64_t from, std::int64_t to) {
    for (std::int64_t step = from; step <= to; ++step) {
      tracer.at_step(step, device, kDevices);
      const TraceSpan span(&tracer, "a", tracer.keep(std::to_string(step)));
    }
  };
  std::jthread([&] { take_steps(0, 1, 6); }).join();
  { const TraceSpan span(&tracer, "a", "another thread"); }
  std::jthread([&] { take_steps(1, 1, 5); }).join();
  { const TraceSpan span(&tracer, "a", "behind the last device"); }
  EXPECT_THAT(names_in(tracer.take()),
              ::testing::ElementsAre("3", "4", "another thread", "3", "4"));
}

TEST(Tracer, TakesNothingAfterItsTraceIsTaken) {
  Tracer tracer(without_counters());
  EXPECT_TRUE(tracer.take().events.empty());
  { const TraceSpan span(&tracer, "a", "b"); }
  EXPECT_TRUE(tracer.take().events.empty());
}

TEST(Tracer, RecordsFromAllThreadsAtOnce) {
  constexpr int kThreads = 8;
  constexpr int kSpans = 1000;
  Tracer tracer(without_counters());
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < kThreads; ++i)
      threads.emplace_back([&] {
        for (int j = 0; j < kSpans; ++j) const TraceSpan span(&tracer, "a", "b");
      });
  }
  const Trace trace = tracer.take();
  EXPECT_EQ(trace.events.size(), std::size_t{kThreads} * kSpans);
  EXPECT_EQ(trace.roles.size(), std::size_t{kThreads});
}

TEST(TraceGauges, AreReadUntilTheyEnd) {
  Tracer tracer({.interval = std::chrono::milliseconds(1)});
  std::atomic<int> reads = 0;
  {
    const TraceGauges gauges(&tracer, {{"queue", [&] { return static_cast<double>(++reads); }}});
    while (reads < 2) std::this_thread::yield();
  }
  const int after = reads;
  const Trace trace = tracer.take();
  EXPECT_EQ(reads, after);
  int counters = 0;
  for (const TraceEvent& event : trace.events)
    counters += event.is_counter && std::string(event.name) == "queue" ? 1 : 0;
  EXPECT_EQ(counters, after);
}

TEST(WriteTrace, EscapesWhatComesFromOutside) {
  const TempDir dir;
  Tracer tracer(without_counters());
  tracer.meet("here");
  {
    TraceSpan span(&tracer, "pipeline", "read");
    span.arg("first_key", std::string_view("a\"b\\\n\xff</script>"));
    span.arg("bytes", 4096);
  }
  const auto sink = io::open_file_sink(dir / "t.json");
  EXPECT_EQ(io::write_trace(tracer, {.process = 2, .processes = 4}, *sink), 0U);
  const auto trace = nlohmann::json::parse(testing::read_file(dir / "t.json"));
  EXPECT_EQ(trace["otherData"]["process"], 2);
  EXPECT_EQ(trace["otherData"]["meeting"], "here");
  const auto& span = trace["traceEvents"].back();
  EXPECT_EQ(span["ph"], "X");
  EXPECT_EQ(span["pid"], 2);
  EXPECT_EQ(span["args"]["first_key"], "a\"b\\\n\xEF\xBF\xBD</script>");
  EXPECT_EQ(span["args"]["bytes"], 4096);
}

TEST(GzipSink, PacksMoreThanItsBuffer) {
  const TempDir dir;
  std::string text;
  for (std::uint64_t i = 0; i < 400'000; ++i) text += std::to_string(i * 7919 % 104'729);
  const auto sink = io::gzip_sink(io::open_file_sink(dir / "t.gz"));
  for (std::size_t at = 0; at < text.size(); at += 100'001)
    sink->write(std::as_bytes(
        std::span(text).subspan(at, std::min<std::size_t>(100'001, text.size() - at))));
  sink->finish();
  EXPECT_EQ(sink->position(), text.size());
  ASSERT_EQ(std::system(("gzip -dc " + (dir / "t.gz") + " > " + (dir / "t")).c_str()), 0);
  EXPECT_TRUE(testing::read_file(dir / "t") == text);
}

}  // namespace
}  // namespace millrace
