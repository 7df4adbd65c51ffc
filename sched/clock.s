// Empty: with it the compiler takes nanotime, which has no body, from elsewhere.
