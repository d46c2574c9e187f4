"""The parts that commands share: options, output, help, interrupts."""
