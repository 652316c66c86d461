// SPDX-License-Identifier: Apache-2.0
//
// Two JITed methods whose shares are known: hotSum does three times the work of warmSum, and the
// program clocks both. Says `ready <pid>` once both are compiled, works from the first byte of its
// standard input until that ends, then prints the seconds in each as JSON.
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;

public class JitLoad {
    static final int COUNT = 30000;
    static final int WARM_COUNT = 100, WARM_TURNS = 20000; // every compiler is done after so many
    static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();
    static double hotSeconds, warmSeconds;
    static long total;

    static long hotSum(int count) {
        long sum = 0;
        for (int i = 0; i < count; i++) sum = (sum + (long) i * i) % 1000003;
        return sum;
    }

    static long warmSum(int count) {
        long sum = 0;
        for (int i = 0; i < count; i++) sum = (sum + (long) i * i) % 1000003;
        return sum;
    }

    static void oneTurn(int count) {
        long began = THREADS.getCurrentThreadCpuTime();
        for (int i = 0; i < 30; i++) total += hotSum(count);
        long middle = THREADS.getCurrentThreadCpuTime();
        for (int i = 0; i < 10; i++) total += warmSum(count);
        hotSeconds += (middle - began) / 1e9;
        warmSeconds += (THREADS.getCurrentThreadCpuTime() - middle) / 1e9;
    }

    static void workFor(double seconds) {
        long end = System.nanoTime() + (long) (seconds * 1e9);
        // No two turns need be of one length: a sampler could keep step with them.
        while (System.nanoTime() < end) oneTurn(COUNT / 2 + (int) (Math.random() * COUNT));
    }

    public static void main(String[] arguments) throws IOException, InterruptedException {
        for (int i = 0; i < WARM_TURNS; i++) oneTurn(WARM_COUNT);
        workFor(1);
        hotSeconds = warmSeconds = 0;
        System.out.println("ready " + ProcessHandle.current().pid());
        System.in.read();
        Thread waiter = new Thread(() -> {
            try {
                while (System.in.read() >= 0) { }
            } catch (IOException error) { // as good as the end
            }
        });
        waiter.start();
        while (waiter.isAlive()) workFor(0.1);
        System.out.printf(java.util.Locale.ROOT, "{\"hot\": %f, \"warm\": %f}%n", hotSeconds,
                          warmSeconds);
    }
}
