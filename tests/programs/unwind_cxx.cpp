// SPDX-License-Identifier: Apache-2.0
//
// A load for tests of stacks, built as distributions build C++ (optimised, no frame pointers):
// exceptions through deep templates with destructors on the way, virtual and std::function calls,
// sort, maps, regular expressions, frames of unknown size, realigned stacks, and threads that wait
// for each other. Works until it is killed.
#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <regex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace
{
volatile std::uint64_t sink;

struct Guard { // its destructor runs while an exception passes
	explicit Guard(std::uint64_t seed) : value(seed) {}
	~Guard() { sink = sink + value; }
	std::uint64_t value;
};

class Bottom : public std::runtime_error
{
      public:
	explicit Bottom(std::uint64_t where)
	    : std::runtime_error("the bottom " + std::to_string(where))
	{
	}
};

template <unsigned Depth> struct Descent {
	[[gnu::noinline]] static std::uint64_t go(std::uint64_t x)
	{
		Guard guard(x);
		std::array<std::uint64_t, Depth % 7 + 1> room{};

		room[x % room.size()] = x;
		x = Descent<Depth - 1>::go(x * 6364136223846793005U + Depth);
		return x + std::accumulate(room.begin(), room.end(), guard.value);
	}
};
template <> struct Descent<0> {
	[[gnu::noinline]] static std::uint64_t go(std::uint64_t x)
	{
		if (x % 3)
			throw Bottom(x % 1000);
		return x;
	}
};

struct Shape {
	virtual ~Shape() = default;
	virtual std::uint64_t area(std::uint64_t depth) const = 0;
};
template <typename Inner> struct Nested final : Shape {
	std::uint64_t area(std::uint64_t depth) const override { return inner.area(depth) * 3 + 1; }
	Inner inner;
};
struct Square final : Shape {
	std::uint64_t area(std::uint64_t depth) const override
	{
		for (std::uint64_t i = 0; i < 40; i++)
			depth = depth * depth + i;
		return depth;
	}
};
using Shapes = Nested<Nested<Nested<Nested<Nested<Square>>>>>;

// A frame of unknown size hangs on the frame pointer whatever the compiler was told.
[[gnu::noinline]] std::uint64_t variable_frame(std::size_t size)
{
	auto *room = static_cast<unsigned char *>(__builtin_alloca(size + 16));

	std::memset(room, static_cast<int>(size), size);
	std::sort(room, room + size,
		  [](unsigned char a, unsigned char b) { return a * 7 % 251 < b * 7 % 251; });
	return room[size / 2];
}

struct alignas(64) Wide {
	std::array<std::uint64_t, 8> words;
};
[[gnu::noinline]] void fill_wide(Wide &wide, std::uint64_t x)
{
	for (auto &word : wide.words)
		word = x = x * 2862933555777941757U + 3037000493U;
}
[[gnu::noinline]] std::uint64_t realigned_frame(std::uint64_t x)
{
	Wide wide;

	fill_wide(wide, x);
	return wide.words[x % 8];
}

[[gnu::noinline]] void throw_and_catch()
{
	for (std::uint64_t i = 0; i < 30; i++) {
		try {
			sink = sink + Descent<40>::go(i * 7919);
		} catch (const Bottom &bottom) {
			sink = sink + std::strlen(bottom.what());
		}
	}
}

[[gnu::noinline]] void rethrow(unsigned depth)
{
	try {
		if (depth == 0)
			std::stoi("not a number"); // thrown inside the library
		rethrow(depth - 1);
	} catch (const std::invalid_argument &) {
		if (depth < 12)
			throw;
	}
}

void containers()
{
	std::map<std::string, std::function<std::uint64_t(std::uint64_t)>> functions;
	std::vector<std::string> words;
	std::ostringstream text;

	for (unsigned i = 0; i < 200; i++)
		words.push_back(std::to_string(i * 7919 % 9973));
	std::sort(words.begin(), words.end(), [](const std::string &a, const std::string &b) {
		return a.size() < b.size() || (a.size() == b.size() && a < b);
	});
	for (const auto &word : words)
		functions[word] = [&words](std::uint64_t x) { return x + words.size(); };
	for (const auto &entry : functions)
		sink = entry.second(sink);
	for (unsigned i = 0; i < 100; i++)
		text << i / 7.0 << ' ';
	sink = sink + text.str().size();
}

void expressions()
{
	static const std::regex pattern("([a-z]+)([0-9]+)", std::regex::optimize);
	const std::string text = "alpha12 beta7 gamma bab a1b2 x9 delta44 epsilon";

	for (std::sregex_iterator match(text.begin(), text.end(), pattern), end; match != end;
	     ++match)
		sink = sink + match->str(2).size();
}

class Exchange
{
      public:
	void serve()
	{
		std::unique_lock<std::mutex> lock(mutex);

		for (;;) {
			changed.wait(lock, [this] { return !asked.empty(); });
			answered.push_back(asked.front() * 2);
			asked.pop_front();
			changed.notify_all();
		}
	}
	std::uint64_t ask(std::uint64_t question)
	{
		std::unique_lock<std::mutex> lock(mutex);

		asked.push_back(question);
		changed.notify_all();
		changed.wait(lock, [this] { return !answered.empty(); });
		question = answered.front();
		answered.pop_front();
		return question;
	}

      private:
	std::mutex mutex;
	std::condition_variable changed;
	std::deque<std::uint64_t> asked, answered;
};

[[noreturn]] void work(Exchange &exchange)
{
	const std::unique_ptr<Shape> shape = std::make_unique<Shapes>();

	for (;;) {
		throw_and_catch();
		rethrow(20);
		for (std::uint64_t i = 0; i < 2000; i++)
			sink = sink + shape->area(i);
		for (std::size_t size = 1; size < 600; size += 50)
			sink = sink + variable_frame(size);
		for (std::uint64_t i = 0; i < 2000; i++)
			sink = sink + realigned_frame(i);
		containers();
		expressions();
		sink = sink + exchange.ask(sink);
		std::this_thread::sleep_for(std::chrono::milliseconds(2));
		std::puts("turn");
		std::fflush(stdout);
	}
}
} // namespace

int main()
{
	Exchange exchange;
	std::thread(&Exchange::serve, &exchange).detach();

	work(exchange);
}
