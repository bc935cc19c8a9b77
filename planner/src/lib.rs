//! Who may answer: admission, ranking, redirect and epoch rules as pure functions
