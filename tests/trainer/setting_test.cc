// What settings say of a difference, and what is kept of them.
#include "trainer/setting.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "io/base/error.h"
#include "trainer/detail/loop/described_options.h"
#include "trainer/detail/loop/old_settings.h"
#include "trainer/rules/adam.h"
#include "trainer/schedule.h"
#include "trainer/schedules/cosine.h"
#include "trainer/schedules/multi_step.h"

namespace millrace::trainer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::string> differences(const std::vector<Setting>& own,
                                     const std::vector<Setting>& other) {
  return setting_differences(own, "in process 0", other, "in process 1");
}

TEST(Setting, ADifferenceNamesBothValues) {
  EXPECT_THAT(differences({{.name = "--mean", .value = "0.1"}, {.name = "--std", .value = "1"}},
                          {{.name = "--mean", .value = "0.9"}, {.name = "--std", .value = "1"}}),
              ElementsAre("--mean: 0.1 in process 0, 0.9 in process 1"));
  EXPECT_THAT(differences({{.name = "--init"}}, {{.name = "--init", .value = "a"}}),
              ElementsAre("--init: none in process 0, a in process 1"));
}

TEST(Setting, NumbersAreComparedAsNumbers) {
  const auto differ = [](const char* one, const char* other) {
    return !differences({{.name = "x", .value = one}}, {{.name = "x", .value = other}}).empty();
  };
  EXPECT_FALSE(differ("0.10", "0.1"));
  EXPECT_FALSE(differ("1e-1", "0.1"));
  EXPECT_TRUE(differ("0.1", "0.10001"));
  EXPECT_TRUE(differ("18446744073709551615", "18446744073709551614")) << "more than a double holds";
  EXPECT_TRUE(differ("0.1", "x"));
}

TEST(Setting, DefaultsThatFollowFromAnotherSettingAreNotNamedWithIt) {
  const std::vector<Setting> sgd = {{.name = "--optimizer", .value = "sgd", .is_given = false},
                                    {.name = "--lr", .value = "0.1", .is_given = false}};
  const std::vector<Setting> adam = {{.name = "--optimizer", .value = "adam"},
                                     {.name = "--lr", .value = "0.001", .is_given = false}};
  EXPECT_THAT(differences(sgd, adam), ElementsAre(HasSubstr("--optimizer: sgd")));
  const std::vector<Setting> other = {{.name = "--lr", .value = "0.2", .is_given = false}};
  EXPECT_THAT(differences(sgd, other), ElementsAre(HasSubstr("--lr: 0.1")));
}

TEST(Setting, AFileIsItsContent) {
  const auto file = [](const char* path, const char* digest) {
    return std::vector<Setting>{{.name = "--init", .value = path, .digest = digest}};
  };
  EXPECT_THAT(differences(file("a", "1234"), file("b", "1234")), IsEmpty());
  EXPECT_THAT(
      differences(file("a", "1234"), file("a", "5678")),
      ElementsAre("--init: a (SHA-256 1234...) in process 0, a (SHA-256 5678...) in process "
                  "1"));
  EXPECT_THAT(differences(file("a", "1234"), file("a", "")), IsEmpty()) << "another host's";
  EXPECT_THAT(differences(file("a", ""), file("b", "5678")),
              ElementsAre(HasSubstr("a in process")));
}

TEST(Setting, ACheckpointKeepsThoseOfTheRun) {
  const std::vector<Setting> all = {
      {.name = "--mean", .value = "0.5", .is_given = false, .digest = "12"},
      {.name = "--epochs", .value = "3", .scope = SettingScope::kStart},
      {.name = "--run-dir", .value = "run", .scope = SettingScope::kCall},
      {.name = "--threads", .value = "8", .scope = SettingScope::kProcess}};
  const auto kept = settings_from_json(settings_to_json(all));
  ASSERT_EQ(2U, kept.size());
  EXPECT_EQ("--mean", kept[0].name);
  EXPECT_EQ("0.5", kept[0].value);
  EXPECT_EQ("12", kept[0].digest);
  EXPECT_FALSE(kept[0].is_given);
  EXPECT_EQ(SettingScope::kStart, kept[1].scope);
  for (const char* text : {"", "{}", "[1]", R"([["a","b",9,1,""]])", R"([["a","b",0,2,""]])"}) {
    if (std::string(text) == "{}") continue;  // no setting
    EXPECT_THROW(settings_from_json(text), Error) << text;
  }
}

// The fields of the structs are counted by the compiler; here, that they are told apart.
TEST(Setting, OptionsOfTheLibraryAreDescribedByTheirNames) {
  TrainOptions options;
  const auto usual = detail::describe(options);
  options.optimizer.rule = Sgd{.momentum = 0.5F};
  options.schedule = schedules::MultiStep{.milestones = {1.0, 2.0}};
  options.precision = nn::Precision::kFloat32;
  options.clip.norm = 1.0;
  EXPECT_THAT(setting_differences(usual, "before", detail::describe(options), "now"),
              ElementsAre("precision: bf16 before, fp32 now", "clip.norm: 0 before, 1 now",
                          "optimizer.momentum: 0.9 before, 0.5 now",
                          "schedule: constant before, multi-step now"));
  const auto before = detail::describe(options);
  options.schedule = schedules::MultiStep{.milestones = {1.0, 3.0}};
  EXPECT_THAT(setting_differences(before, "before", detail::describe(options), "now"),
              ElementsAre("schedule.milestones: 1,2 before, 1,3 now"));
}

// The lists that checkpoints had before rules and schedules were components, as they were written.
TEST(Setting, OldCheckpointsAreComparedByTheNamesOfNow) {
  const std::vector<Setting> library = settings_from_json(
      R"([["optimizer.rule","adam",0,1,""],["optimizer.beta1","0.9",1,1,""],)"
      R"(["optimizer.beta2","0.99",1,1,""],["optimizer.epsilon","1e-08",1,1,""],)"
      R"(["schedule.kind","cosine",1,1,""],["schedule.unit","step",1,1,""],)"
      R"(["schedule.base_lr","0.5",1,1,""],["schedule.min_lr","0.25",1,1,""],)"
      R"(["schedule.warmup_epochs","0",1,1,""],["schedule.warmup_steps","8",1,1,""]])");
  const RunLength warmup = {.count = 8, .unit = RunLength::Unit::kSteps};
  const TrainOptions same = {
      .optimizer = {.rule = Adam{.lr = 0.5, .betas = {0.9F, 0.99F}}},
      .schedule = schedules::Cosine{.final_rate = 0.25,
                                    .pace = {.warmup = warmup, .unit = RateUnit::kStep}}};
  const auto described = detail::describe(same);
  EXPECT_THAT(
      setting_differences(detail::with_new_names(library, described), "saved", described, "given"),
      IsEmpty());
}

/// The names of all settings that the library has, of every rule and schedule.
std::set<std::string> names_of_now() {
  std::set<std::string> names;
  for (const Component& rule : standard_rules().all())
    for (const Component& schedule : standard_schedules().all())
      for (const Setting& one : detail::describe(
               {.optimizer = {.rule = Rule(rule)}, .schedule = ScheduleChoice(schedule)}))
        names.insert(one.name);
  return names;
}

TEST(Setting, EveryNameOfBeforeIsOneOfNow) {
  const std::set<std::string> names = names_of_now();
  for (const auto& [before, now] : detail::renamed_settings()) {
    EXPECT_TRUE(names.contains(std::string(now))) << before << " is " << now;
    EXPECT_FALSE(names.contains(std::string(before))) << before;
  }
}

}  // namespace
}  // namespace millrace::trainer
