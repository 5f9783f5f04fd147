#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "io/append_file.h"
#include "tests/support/temp_dir.h"
#include "trainer/detail/loop/epoch_report.h"
#include "trainer/events.h"
#include "trainer/log_lines.h"
#include "trainer/meter.h"
#include "trainer/metrics_files.h"
#include "trainer/metrics_report.h"
#include "trainer/progress_bar.h"
#include "trainer/tensorboard_log.h"

namespace millrace::trainer {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(LogLines, HaveTheFormThatScriptsRead) {
  const StepEvent event{.rank = 2,
                        .device = "cpu:0",
                        .epoch = 8,
                        .step = 310,
                        .loss = 0.26758,
                        .mean_loss = 0.31415,
                        .rate = 1079.01,
                        .global_rate = 1420.67};
  EXPECT_EQ(
      "Training Device=cpu:0/2 Epoch=8 Step=310 Loss=0.26758 Rate=1079.01 GlobalRate=1420.67 "
      "Time=18:02:10 MeanLoss=0.31415",
      training_line(event, "18:02:10"));
  StepEvent of_two = event;
  of_two.world = 2;
  of_two.total_rate = 2841.34;
  EXPECT_THAT(training_line(of_two, "18:02:10"),
              ::testing::EndsWith("MeanLoss=0.31415 Reduced GlobalRate=2841.34"));
  EpochEvent epoch;
  epoch.epoch = 8;
  epoch.train_seconds = 28.4;
  epoch.replica_train_samples = 39664;
  epoch.rate = 45676.5;
  epoch.train = {{"loss", 0.31415}, {"top1", 0.892}};
  epoch.skipped_samples = 3;
  EXPECT_EQ(
      "Epoch 8 train end 18:02:10, Epoch Time=0:00:28, Replica Train Samples=39664, Reduced "
      "GlobalRate=45676.50, Train loss=0.31415, Train top1=89.20%, Skipped=3",
      epoch_end_line(epoch, "18:02:10"));
  epoch.skipped_steps = 49;
  epoch.skipped_step_samples = 784;
  EXPECT_THAT(epoch_end_line(epoch, "18:02:10"),
              ::testing::EndsWith("top1=89.20%, Skipped Steps=49, Skipped=3"));
  EXPECT_THAT(to_json(epoch), HasSubstr(R"("skipped_steps":49,"skipped_step_samples":784)"));
  epoch.refetched = 2;
  EXPECT_THAT(epoch_end_line(epoch, "18:02:10"), ::testing::EndsWith("Skipped=3, Refetched=2"));
  EXPECT_THAT(to_json(epoch), HasSubstr(R"("refetched":2)"));
  epoch.val = {{"loss", 0.5}, {"top1", 0.88}};
  epoch.val_samples = 10'000;
  epoch.val_seconds = 3.21;
  EXPECT_EQ(
      "Epoch 8 test end 18:02:14, Reduced Accuracy=88.00%, loss=0.50000, Test Samples=10000, Test "
      "Time=3.2 s",
      evaluation_line(epoch, "18:02:14"));
  EXPECT_EQ("27:46:40", duration_text(100'000));
  EndEvent end;
  end.epochs = 2;
  end.seconds = 100;
  end.mean_rate = 12.5;
  end.interrupted = true;
  EXPECT_EQ("Interrupted after 2 epochs, Total Time=0:01:40, Average GlobalRate=12.50",
            end_line(end));
  end.interrupted = false;
  end.stopped_by = "max-time";
  EXPECT_EQ("Stopped by --max-time after 2 epochs, Total Time=0:01:40, Average GlobalRate=12.50",
            end_line(end));
  EXPECT_THAT(to_json(end), HasSubstr(R"("stopped_by":"max-time")"));
}

TEST(LogLines, TheLastOneCallsTheMonitoredMeasureByItsName) {
  EndEvent end;
  end.best_epoch = 2;
  end.best = 0.5;
  for (const auto& [monitor, text] :
       std::vector<std::pair<std::string, std::string>>{{"val_top1", "Max Accuracy=50.00%"},
                                                        {"val_top5", "Best val_top5=50.00%"},
                                                        {"train_top1", "Best train_top1=50.00%"},
                                                        {"val_miou", "Best val_miou=50.00%"},
                                                        {"val_auroc", "Best val_auroc=0.50000"},
                                                        {"val_loss", "Best val_loss=0.50000"}}) {
    end.monitor = monitor;
    EXPECT_THAT(end_line(end), ::testing::EndsWith(", " + text + " at Epoch=2"));
  }
}

TEST(RateMeter, SmoothsSixtyToForty) {
  const RateMeter::Clock::time_point start{};
  RateMeter meter(start);
  meter.add(100);
  meter.mark(start + std::chrono::seconds(1));
  EXPECT_DOUBLE_EQ(100.0, meter.rate());
  meter.add(200);
  meter.mark(start + std::chrono::seconds(2));
  EXPECT_DOUBLE_EQ(0.6 * 200.0 + 0.4 * 100.0, meter.rate());
  EXPECT_DOUBLE_EQ(150.0, meter.global_rate(start + std::chrono::seconds(2)));
}

TEST(StallReport, NamesTheBoundAndTheStepWithFreeBatches) {
  const StepTimes busy{.wait = 0.1, .forward = 4, .backward = 5, .reduce = 0.5, .update = 0.4};
  const auto ten = [](const StepTimes& all) {
    return detail::ReplicaTimes{.all = all, .first = {}};
  };
  const StallReport compute = detail::make_stall_report({ten(busy), ten(busy)}, 11, "decode");
  EXPECT_THAT(compute.verdict, StartsWith("compute-bound"));
  EXPECT_NEAR(0.99, compute.free_input_step, 1e-12);
  StepTimes starved = busy;
  starved.wait = 10;
  const StallReport input = detail::make_stall_report({ten(starved)}, 11, "decode");
  EXPECT_THAT(input.verdict, StartsWith("input-bound by decode"));
  EXPECT_NEAR(0.99, input.free_input_step, 1e-12);
}

TEST(StallReport, SumsThatNothingHidesAreTheBound) {
  const StepTimes step{
      .wait = 0.003, .forward = 0.006, .backward = 0.01, .reduce = 0.112, .update = 0.001};
  const auto of = [](const StepTimes& all) {
    return detail::make_stall_report({{.all = all, .first = {}}}, 2, "decode").verdict;
  };
  EXPECT_EQ("reduction-bound (sums take 84.8 %)", of(step));
  StepTimes starved = step;
  starved.wait = 1;
  EXPECT_THAT(of(starved), StartsWith("input-bound by decode"));
  StepTimes busy = step;
  busy.forward = 1;
  EXPECT_THAT(of(busy), StartsWith("compute-bound"));
}

TEST(StallReport, ShowsTheWaitForPeersApartFromReducing) {
  const StepTimes step{.wait = 1, .forward = 2, .backward = 3, .reduce = 0.5, .peer_wait = 4};
  EpochEvent event;
  event.stall = detail::make_stall_report({{.all = step, .first = {}}}, 2, "decode");
  EXPECT_DOUBLE_EQ(10.5, event.stall.mean_step.total());
  EXPECT_THAT(stall_line(event), ::testing::HasSubstr("reduce 500.0 + others 4000.0 + update"));
  EXPECT_THAT(to_json(event), ::testing::HasSubstr(R"("reduce":0.5,"peer_wait":4.0)"));
}

// The input starts, and plans are compiled, while the first step waits.
TEST(StallReport, TheFirstStepDoesNotDecide) {
  const StepTimes slow{.wait = 9, .forward = 3};
  StepTimes all{.wait = 0.1, .forward = 9.9};
  all.add(slow);
  const StallReport report = detail::make_stall_report({{.all = all, .first = slow}}, 11, "decode");
  EXPECT_EQ("compute-bound (waits 1.0 %)", report.verdict);
  EXPECT_EQ(10, report.steps);
  EXPECT_NEAR(1.0, report.mean_step.total(), 1e-12);
  EXPECT_NEAR(0.99, report.free_input_step, 1e-12);
  EXPECT_NEAR(12.0, report.first_step.total(), 1e-12);
  EpochEvent event;
  event.stall = report;
  EXPECT_THAT(stall_line(event), ::testing::EndsWith("first step 12000.0 ms"));
}

TEST(StallReport, OneStepIsTooShortToTell) {
  const StepTimes slow{.wait = 9, .forward = 3};
  for (const std::int64_t steps : {0, 1}) {
    const auto report = detail::make_stall_report({{.all = slow, .first = slow}}, steps, "decode");
    EXPECT_EQ("too short for a verdict", report.verdict);
    EXPECT_EQ(0.0, report.wait_share);
    EpochEvent event;
    event.stall = report;
    EXPECT_EQ(
        "Epoch 1 too short for a verdict: first step 12000.0 ms = wait 9000.0 + forward "
        "3000.0 + backward 0.0 + reduce 0.0 + others 0.0 + update 0.0",
        stall_line(event));
  }
}

TEST(Events, AreOneJsonObjectEach) {
  EpochEvent event;
  event.train = {{"loss", 0.5}};
  event.val = {{"loss", 0.25}, {"top1", 0.75}};
  event.train_samples = 10;
  const std::string json = to_json(event);
  EXPECT_THAT(json, HasSubstr(R"("event":"epoch","epoch":1,"train_loss":0.5,"train_samples":10,)"
                              R"("skipped_steps":0,"skipped_step_samples":0,)"
                              R"("val_loss":0.25,"val_top1":0.75)"));
  EXPECT_THAT(json, HasSubstr(R"("skipped":0,"refetched":0,"val_skipped":0)"));
  EXPECT_THAT(json, HasSubstr(R"("val_seconds":0.0)"));
  EXPECT_THAT(to_json(StepEvent{.mean_loss = 0.5}), HasSubstr(R"("mean_loss":0.5)"));
  EXPECT_THAT(to_json(EndEvent{}), HasSubstr(R"("best":null)"));
}

TEST(ProgressBar, FitsItsTerminal) {
  const StepEvent event{.epoch = 3, .step = 222, .steps_per_epoch = 391, .mean_loss = 0.2676};
  const std::string line = ProgressBar::text(event, 79);
  EXPECT_LE(line.size(), 79U);
  EXPECT_THAT(line, HasSubstr("57 % 222/391"));
  EXPECT_LE(ProgressBar::text(event, 20).size(), 20U);
}

TEST(ProgressBar, ShowsTheRateOfAllDevicesAndTheTimeLeft) {
  const StepEvent event{.world = 2,
                        .epoch = 3,
                        .step = 222,
                        .steps_per_epoch = 391,
                        .mean_loss = 0.2676,
                        .lr = 0.1,
                        .global_rate = 500.0,
                        .total_rate = 998.0};
  const std::string left = time_left_text(222.0 / 391.0, 16.0);
  EXPECT_EQ(", 0:00:12 left", left);
  EXPECT_EQ("", time_left_text(0.0, 16.0));
  const std::string wide = ProgressBar::text(event, 99, {.left = left});
  EXPECT_THAT(wide, HasSubstr("57 % 222/391 loss 0.2676 lr 0.1 998/s, 0:00:12 left"));
  for (const std::size_t width : {79U, 59U, 39U}) {
    const std::string line = ProgressBar::text(event, width, {.left = left});
    EXPECT_LE(line.size(), width);
    EXPECT_THAT(line, HasSubstr("998/s"));
    EXPECT_EQ(line.ends_with("0:00:12 left"), width > 40) << line;
    EXPECT_EQ(line.find("loss 0.2676") != std::string::npos, width > 40) << line;
  }
}

TEST(ProgressBar, SaysOfTheRunWhatFits) {
  const StepEvent event{.epoch = 3,
                        .step = 222,
                        .steps_per_epoch = 391,
                        .mean_loss = 0.2676,
                        .lr = 0.1,
                        .total_rate = 998.0};
  const BarNotes notes{.epochs = 40,
                       .left = ", 0:00:12 left",
                       .run_left = ", run 0:10:31 left",
                       .measure = " val top1 0.892",
                       .wait_share = 0.021};
  EXPECT_THAT(ProgressBar::text(event, 199, notes),
              ::testing::AllOf(StartsWith("Epoch 3/40 [==="),
                               ::testing::EndsWith("57 % 222/391 loss 0.2676 val top1 0.892 lr 0.1 "
                                                   "998/s, wait 2 %, 0:00:12 left, run 0:10:31 "
                                                   "left")));
  for (const std::size_t width : {199U, 99U, 79U, 59U, 39U, 9U})
    EXPECT_LE(ProgressBar::text(event, width, notes).size(), width);
}

TEST(MetricsLog, TellsOfAFaultAfterTheLastStepsBeforeIt) {
  const testing::TempDir folder;
  {
    MetricsLog log(folder / "m.jsonl");
    log.on_step({.global_step = 20});
    log.on_log_step({.global_step = 20});
    log.on_step({.global_step = 21, .loss = 1e9});
    log.on_fault({.fault = "NotFinite", .message = "the loss", .epoch = 2, .global_step = 22});
  }
  const std::string text = testing::read_file(folder / "m.jsonl");
  EXPECT_THAT(text,
              ::testing::EndsWith(R"("event":"fault","fault":"NotFinite","message":"the loss",)"
                                  R"("epoch":2,"global_step":22,"seconds":0.0})"
                                  "\n"));
  EXPECT_EQ(std::ranges::count(text, '\n'), 3) << "step 20 once, then step 21";
  EXPECT_THAT(text, HasSubstr(R"("global_step":21,"loss":1000000000.0)"));
}

TEST(Events, ASkippedSampleHasItsPlace) {
  EpochEvent event;
  event.input.skips.push_back({.shard = "a.tar",
                               .key = "0\xff",
                               .member = "0.png",
                               .offset = 512,
                               .fault = "Corrupt",
                               .reason = "no PNG"});
  EXPECT_THAT(to_json(event),
              HasSubstr(R"("skips":[{"shard":"a.tar","key":"0)"
                        "\xEF\xBF\xBD"
                        R"(","member":"0.png","offset":512,"fault":"Corrupt","reason":"no PNG",)"
                        R"("samples":1}])"));
}

// Reads an event file with Python's standard library only: frames, checksums, scalars.
constexpr const char* kReader = R"(
import struct, sys
def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8): crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF
def fields(data):
    at = 0
    def varint():
        nonlocal at
        value, shift = 0, 0
        while True:
            byte = data[at]; at += 1
            value |= (byte & 127) << shift; shift += 7
            if byte < 128: return value
    while at < len(data):
        key = varint()
        size = {0: 0, 1: 8, 5: 4}.get(key & 7)
        if key & 7 == 0: yield key >> 3, varint(); continue
        if size is None: size = varint()
        yield key >> 3, data[at:at + size]; at += size
data, at = open(sys.argv[1], 'rb').read(), 0
while at < len(data):
    length, = struct.unpack_from('<Q', data, at)
    assert struct.unpack_from('<I', data, at + 8)[0] == crc32c(data[at:at + 8])
    record = data[at + 12:at + 12 + length]
    assert struct.unpack_from('<I', data, at + 12 + length)[0] == crc32c(record)
    at += 16 + length
    event = dict(fields(record))
    if 3 in event: print(event[3].decode())
    for number, value in fields(event.get(5, b'')):
        scalar = dict(fields(value))
        print(event[2], scalar[1].decode(), struct.unpack('<f', scalar[2])[0])
)";

TEST(TensorBoardLog, IsReadByAnIndependentParser) {
  const testing::TempDir folder;
  const std::string path = folder / TensorBoardLog::new_name();
  TensorBoardLog log(io::open_append_file(path));
  log.on_step({.global_step = 300});
  log.on_log_step({.global_step = 300, .loss = 0.5, .lr = 0.25, .rate = 1024, .recent_rate = 2048});
  EpochEvent epoch;
  epoch.global_step = 301;
  epoch.val = {{"top1", 0.75}};
  log.on_epoch_end(epoch);
  testing::write_file(folder / "reader.py", kReader);
  const std::string command =
      "/usr/bin/python3 " + (folder / "reader.py") + " " + path + " > " + (folder / "out");
  ASSERT_EQ(0, std::system(command.c_str()));
  const std::string out = testing::read_file(folder / "out");
  EXPECT_THAT(out, StartsWith("brain.Event:2\n300 step/loss 0.5\n300 step/lr 0.25\n"
                              "300 step/rate 2048.0\n"))
      << "of all devices, as epoch/rate";
  EXPECT_THAT(out, HasSubstr("301 val/top1 0.75")) << "the epoch's last, with a step or without";
}

TEST(MetricsReport, HasPercentilesCompilationsAndWarnings) {
  MetricsReport report;
  for (int i = 1; i <= 101; ++i) {
    report.on_step({.world = 2,
                    .times = {.wait = 1.0, .forward = static_cast<double>(i - 1)},
                    .samples = 1,
                    .global_samples = 2});
  }
  EpochEvent epoch;
  for (const char* shape : {"8 x m", "7 x m", "6 x m"}) {
    epoch.compilations.push_back({.rank = 0, .shape = shape, .seconds = 0.5});
  }
  report.on_epoch_end(epoch);
  const std::string text = report.text();
  EXPECT_THAT(text, StartsWith("Times and bytes are of rank 0 of 2"));
  EXPECT_THAT(text, HasSubstr("Metric: ForwardTime\n  TotalSamples: 101"));
  EXPECT_THAT(text, HasSubstr("1%=1.000s; 5%=5.000s; 10%=10.000s; 20%=20.000s; 50%=50.000s"));
  EXPECT_THAT(text, HasSubstr("compiled 3 times in 101 steps: batch shape changes"));
  EXPECT_THAT(text, HasSubstr("Counter: Samples\n  Value: 202"));
}

/// The warnings of an epoch of ten steps like `step`, its first one like `first`, on every replica.
std::vector<std::string> warnings_of(const StepTimes& first, const StepTimes& step) {
  MetricsReport report;
  StepTimes all = first;
  all.add(step, 9);
  EpochEvent epoch;
  epoch.stall = detail::make_stall_report({{.all = all, .first = first}}, 10, "decode");
  report.on_epoch_end(epoch);
  return report.warnings();
}

TEST(MetricsReport, WarnsAsTheVerdictDoes) {
  const auto ten = [](double wait) {
    return detail::ReplicaTimes{.all = {.wait = wait, .forward = 10 - wait}, .first = {}};
  };
  MetricsReport report;
  report.on_step({.world = 2, .times = {.wait = 0.9, .forward = 0.1}});
  EpochEvent epoch;
  epoch.stall = detail::make_stall_report({ten(0.9), ten(0.01)}, 11, "decode");
  report.on_epoch_end(epoch);
  EXPECT_THAT(epoch.stall.verdict, StartsWith("compute-bound (waits 4."));
  EXPECT_THAT(report.warnings(), ::testing::IsEmpty()) << "rank 0 alone waits 9 %";
}

TEST(MetricsReport, WarnsOfInputBoundStepsAndOfSmallBatches) {
  const StepTimes good{.wait = 0.001, .forward = 0.1};
  EXPECT_THAT(warnings_of(good, good), ::testing::IsEmpty());
  EXPECT_THAT(warnings_of({.wait = 5.0, .forward = 1.0}, good), ::testing::IsEmpty())
      << "the input's start";
  EXPECT_THAT(
      warnings_of(good, {.wait = 0.3, .forward = 0.1}),
      ::testing::ElementsAre("input-bound: 75.0 % of the time was spent waiting for batches"));
  EXPECT_THAT(warnings_of(good, {.forward = 0.0005}),
              ::testing::ElementsAre("a step takes 500.000us, most of it overhead: batches are "
                                     "too small"));
}

TEST(MetricsCsv, KeepsItsHeaderOverARestart) {
  const testing::TempDir folder;
  for (int run = 0; run < 2; ++run) {
    MetricsCsv csv(folder / "m.csv");
    csv.on_step({.global_step = 5});
    csv.on_log_step({.epoch = 1, .loss = 0.5, .lr = 0.25, .rate = 2, .recent_rate = 4});
  }
  const std::string text = testing::read_file(folder / "m.csv");
  EXPECT_THAT(text, StartsWith("event,epoch,global_step,name,value\nstep,1,5,loss,0.5\n"));
  EXPECT_EQ(text.find("event"), text.rfind("event")) << "one header";
  EXPECT_THAT(text, HasSubstr("step,1,5,rate,4\n")) << "of all devices";
}

// As after a full disk.
TEST(MetricsCsv, BeginsALineOfItsOwnBehindATornOne) {
  const testing::TempDir folder;
  testing::write_file(folder / "m.csv", "event,epoch,global_step,name,value\nstep,1,5,lo");
  testing::write_file(folder / "m.jsonl", "{\"event\":\"st");
  MetricsCsv(folder / "m.csv").on_log_step({.epoch = 2});
  MetricsLog(folder / "m.jsonl").on_log_step({.epoch = 2});
  EXPECT_THAT(testing::read_file(folder / "m.csv"), HasSubstr("step,1,5,lo\nstep,2,"));
  EXPECT_THAT(testing::read_file(folder / "m.jsonl"), StartsWith("{\"event\":\"st\n{"));
}

// As of a run that was stopped in an evaluation, and resumed.
TEST(MetricsCsv, HasAnEpochsStepWithoutAStep) {
  const testing::TempDir folder;
  MetricsCsv csv(folder / "m.csv");
  EpochEvent epoch;
  epoch.epoch = 2;
  epoch.global_step = 14;
  epoch.val = {{"top1", 0.75}};
  csv.on_epoch_end(epoch);
  EXPECT_THAT(testing::read_file(folder / "m.csv"), HasSubstr("\nepoch,2,14,val_top1,0.75\n"));
}

}  // namespace
}  // namespace millrace::trainer
