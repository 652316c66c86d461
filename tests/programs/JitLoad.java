// SPDX-License-Identifier: Apache-2.0
//
// Two JITed methods whose shares are known: hotSum does three times the work of warmSum, and the
// program clocks both. Says `ready <pid>` once both are compiled, works from the first byte of its
// standard input until that ends, then prints the seconds in each as JSON.
import java.io.IOException;

public class JitLoad {
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

    static void oneTurn() {
        long began = System.nanoTime();
        for (int i = 0; i < 3; i++) total += hotSum(30000);
        long middle = System.nanoTime();
        total += warmSum(30000);
        hotSeconds += (middle - began) / 1e9;
        warmSeconds += (System.nanoTime() - middle) / 1e9;
    }

    static void workFor(double seconds) {
        long end = System.nanoTime() + (long) (seconds * 1e9);
        while (System.nanoTime() < end) oneTurn();
    }

    public static void main(String[] arguments) throws IOException, InterruptedException {
        workFor(2);
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
